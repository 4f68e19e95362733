// Search runs in a worker, which browsers refuse for pages opened from disk. There, run the same script in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const base = new URL(url, location.href);
      const load = (address) =>
        new Promise((done, failed) => {
          const script = inner.document.createElement("script");
          script.src = new URL(address, base);
          script.onload = done;
          script.onerror = failed;
          inner.document.body.append(script);
        });
      inner.importScripts = (...addresses) => Promise.all(addresses.map(load));
      load(base).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.deliver(data));
      });
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
