// Browsers start no workers for pages that are opened from a folder. The search's worker then runs in a frame instead;
// the theme looks for the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.inside = new Promise((resolve, reject) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const element = frame.contentDocument.createElement("script");
          element.src = new URL(script, location);
          element.onload = () => resolve(inside);
          element.onerror = reject;
          frame.contentDocument.body.append(element);
        };
      });
      document.body.append(frame);
    }

    async postMessage(data) {
      (await this.inside).dispatchEvent(new MessageEvent("message", { data }));
    }
  };
  window.Worker = window.IFrameWorker;
}
