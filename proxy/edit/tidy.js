/// Takes what was inserted out of the document again before the page's own scripts run: frameworks
/// that hydrate a whole document find it as their server sent it, and document.styleSheets[0] and
/// document.scripts[0] are the page's own. Without scripting the elements stay and do their work.
(() => {
	"use strict";
	const script = document.currentScript;
	const sheets = Object.getOwnPropertyDescriptor(Document.prototype, "adoptedStyleSheets");
	const kept = [];
	const all = () => {
		const now = Array.from(sheets.get.call(document));
		const more = kept.filter(s => !now.includes(s));
		if (more.length > 0) {
			sheets.set.call(document, now.concat(more));
		}
	};
	const adopt = e => {
		const sheet = new CSSStyleSheet();
		sheet.replaceSync(e.localName === "style" ? e.textContent : Array.from(e.sheet.cssRules, r => r.cssText).join("\n"));
		kept.push(sheet);
		all();
		e.remove();
	};
	try {
		const ours = [];
		for (let e = script.previousElementSibling; e !== null; e = e.previousElementSibling) {
			ours.unshift(e);
		}
		for (const e of ours) {
			if (e.localName === "meta") {
				e.remove();
			} else if (e.localName === "link" && e.sheet === null) { // it failed, or this browser does not wait for it
				e.addEventListener("load", () => adopt(e));
				e.addEventListener("error", () => e.remove());
			} else {
				adopt(e);
			}
		}
		// A page that sets its own adopted sheets does not lose these.
		Object.defineProperty(document, "adoptedStyleSheets", {
			configurable: true,
			enumerable: true,
			get: () => sheets.get.call(document),
			set: s => {
				sheets.set.call(document, s);
				all();
			},
		});
	} catch {} // an older browser keeps the elements
	script.remove();
})();
