/* Buttons that copy a command. */
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
