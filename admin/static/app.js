// What the admin pages do beyond links and forms. Every page works without.
"use strict";
(() => {
	const $ = (selector, from = document) => from.querySelector(selector);
	const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

	// On a phone a table becomes cards: each cell says which column it is of.
	const label = (from) => $$("table:not(.keep)", from).forEach((table) => {
		const names = $$("thead th", table).map((th) => th.textContent.trim());
		$$("tbody tr", table).forEach((tr) => [...tr.cells].forEach((td, i) => {
			if (names[i]) td.dataset.th = names[i];
		}));
	});
	label(document);

	// data-refresh="SECONDS": the element is fetched again, while somebody looks.
	$$("[data-refresh]").forEach((old) => {
		const again = async () => {
			const now = document.getElementById(old.id);
			if (!document.hidden && !now.contains(document.activeElement)) {
				try {
					const r = await fetch(location.href, {headers: {Accept: "text/html"}});
					const next = new DOMParser().parseFromString(await r.text(), "text/html").getElementById(old.id);
					if (r.ok && next) { now.replaceWith(next); label(next); }
				} catch { /* the gateway starts again: look later */ }
			}
			setTimeout(again, 1000 * old.dataset.refresh);
		};
		setTimeout(again, 1000 * old.dataset.refresh);
	});

	// data-live="ADDRESS": rows arrive as server-sent events while the box is ticked.
	const live = $("[data-live]"), tick = $("#live");
	if (live && tick) {
		let source;
		const keep = 300;
		const set = () => {
			source?.close();
			if (!tick.checked) return;
			source = new EventSource(live.dataset.live);
			source.onmessage = (e) => {
				const t = document.createElement("template");
				t.innerHTML = e.data;
				const row = t.content.firstElementChild;
				row.classList.add("new");
				live.prepend(row);
				label(live.closest("section"));
				while (live.rows.length > keep) live.deleteRow(-1);
				$("#none")?.remove();
			};
		};
		tick.closest("label").hidden = false;
		tick.addEventListener("change", set);
		addEventListener("pagehide", () => source?.close());
		set();
	}

	// The page that somebody is on is in sight among the links of a phone.
	$(".side [aria-current]")?.scrollIntoView({block: "nearest", inline: "center"});

	// data-ruling: the form of that page is filled in here, and what came of it is
	// said above, with a way back.
	const take = async (address, selector, options = {}) => {
		const r = await fetch(address, {...options, headers: {Accept: "text/html"}});
		return $(selector, new DOMParser().parseFromString(await r.text(), "text/html"));
	};
	const sendHere = (form, done) => form.addEventListener("submit", async (e) => {
		e.preventDefault();
		const said = await take(form.action, ".say", {method: "POST", body: new URLSearchParams(new FormData(form, e.submitter))});
		if (!said) { location = form.action; return; }
		$$("form", said).forEach((undo) => sendHere(undo, () => {}));
		$("main > .say")?.remove();
		$("main > .head").after(said);
		done();
	});
	document.addEventListener("click", async (e) => {
		const link = e.target.closest("a[data-ruling]");
		if (!link || e.button || e.ctrlKey || e.metaKey || e.shiftKey) return;
		e.preventDefault();
		const form = await take(link.href, "form.stack[action='/rulings']").catch(() => null);
		if (!form) { location = link.href; return; }
		const dialog = document.createElement("dialog"), title = document.createElement("h2"), close = document.createElement("button");
		title.textContent = "Open or block a site";
		title.id = "asked";
		dialog.setAttribute("aria-labelledby", title.id);
		close.type = "button";
		close.textContent = "Cancel";
		close.addEventListener("click", () => dialog.close());
		$(".row:last-child", form).append(close);
		sendHere(form, () => dialog.close());
		dialog.append(title, form);
		dialog.addEventListener("close", () => { dialog.remove(); link.focus(); });
		document.body.append(dialog);
		dialog.showModal();
	});

	// The editor of the settings: numbers beside the lines, two spaces for Tab.
	const text = $(".editor textarea"), numbers = $(".editor pre");
	if (text) {
		const bad = new Set((numbers.dataset.bad || "").split(" "));
		const count = () => {
			const n = text.value.split("\n").length;
			numbers.replaceChildren(...Array.from({length: n}, (_, i) => {
				const line = document.createElement(bad.has(String(i + 1)) ? "b" : "span");
				line.textContent = i + 1 + "\n";
				return line;
			}));
			numbers.scrollTop = text.scrollTop;
		};
		const go = (line) => {
			const before = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
			text.focus();
			text.setSelectionRange(before, before);
			text.scrollTop = (line - 6) * text.scrollHeight / text.value.split("\n").length;
		};
		text.addEventListener("input", () => { bad.clear(); count(); });
		text.addEventListener("scroll", () => { numbers.scrollTop = text.scrollTop; });
		// Escape leaves the editor, so that Tab traps nobody.
		text.addEventListener("keydown", (e) => {
			if (e.key === "Escape") $(".editor ~ * button, .editor ~ button")?.focus();
			if (e.key !== "Tab" || e.shiftKey) return;
			e.preventDefault();
			text.setRangeText("  ", text.selectionStart, text.selectionEnd, "end");
		});
		$$("[data-line]").forEach((a) => a.addEventListener("click", (e) => { e.preventDefault(); go(+a.dataset.line); }));
		count();
	}

	// A form is sent once; the button says that it works.
	$$("form[method=post]").forEach((form) => form.addEventListener("submit", (e) => {
		if (form.dataset.sent) { e.preventDefault(); return; }
		form.dataset.sent = "yes";
		form.setAttribute("aria-busy", "true");
	}));
	addEventListener("pageshow", () => $$("form[data-sent]").forEach((form) => { delete form.dataset.sent; form.removeAttribute("aria-busy"); }));
})();
