(() => {
  const choice = document.getElementById("rule");
  const show = () => {
    for (const part of document.querySelectorAll(".by-rule")) part.hidden = part.dataset.rule !== choice.value;
    for (const line of document.querySelectorAll("tr[data-rule]")) {
      line.classList.toggle("shown", line.dataset.rule === choice.value);
    }
  };
  choice.closest(".selector").hidden = false;
  choice.addEventListener("change", show);
  show();
})();
