// Opened from disk, a page may not start a worker; an invisible frame runs the search's script in its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.append(frame)
      this.inner = frame.contentWindow
      this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise(done => {
        const script = this.inner.document.createElement("script")
        script.src = url
        script.onload = done
        this.inner.document.body.append(script)
      })
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })))
    }
    terminate() {}
  }
}
