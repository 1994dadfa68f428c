/* Buttons that copy a command, and a field that shows the rows with its words only. */
document.addEventListener("input", function (event) {
  var field = event.target;
  if (!field.matches || !field.matches("input.find")) return;
  var words = field.value.toLowerCase().split(/\s+/);
  document.querySelectorAll(field.dataset.rows).forEach(function (row) {
    var text = row.textContent.toLowerCase();
    row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
  });
});
document.addEventListener("click", function (event) {
  var button = event.target.closest && event.target.closest("button.copy");
  if (!button) return;
  var text = button.parentNode.querySelector("code").textContent;
  var done = function () { button.textContent = "copied"; setTimeout(function () { button.textContent = "copy"; }, 1200); };
  var select = function () {
    var range = document.createRange();
    range.selectNodeContents(button.parentNode.querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    done();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select); else select();
});
