// Search runs in a worker, which browsers refuse for pages opened from disk. There, run the same script in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.frame.addEventListener("load", () => this.start(new URL(url, location.href)), { once: true });
      document.body.append(this.frame);
    }
    async start(base) {
      const inner = this.frame.contentWindow;
      const load = (address) =>
        new Promise((done, failed) => {
          const script = inner.document.createElement("script");
          script.src = new URL(address, base);
          script.onload = done;
          script.onerror = failed;
          inner.document.body.append(script);
        });
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...addresses) => Promise.all(addresses.map(load));
      await load(base);
      this.ready = true;
      this.waiting.splice(0).forEach((data) => this.deliver(data));
    }
    deliver(data) {
      const inner = this.frame.contentWindow;
      inner.dispatchEvent(new inner.MessageEvent("message", { data, source: inner }));
    }
    postMessage(data) {
      if (this.ready) this.deliver(data);
      else this.waiting.push(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
