// Nothing beside base.js.
