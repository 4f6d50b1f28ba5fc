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

	// htmx puts what it fetches into the page. What it fetches again and again stays as it is
	// while nobody looks or somebody works in it, or when the answer lacks it.
	const on = (event, f) => document.addEventListener("htmx:" + event, (e) => f(e, e.detail.ctx, e.detail));
	const again = (ctx) => ctx.sourceEvent?.type === "every";
	on("before:request", (e, ctx) => {
		if (again(ctx) && (document.hidden || ctx.target.contains(document.activeElement))) e.preventDefault();
	});
	// The log stands still while somebody points into it or works in it. What is new waits in a bar.
	const rows = $("#rows"), bar = $("#held"), held = [];
	const reads = () => rows.matches(":hover") || rows.contains(document.activeElement) || bar.matches(":hover");
	const release = () => {
		if (!held.length) return;
		const fresh = held.splice(0).flatMap((part) => [...part.children]);
		fresh.forEach((row) => { rows.prepend(row); window.htmx.process(row); });
		bar.hidden = true;
		while (rows.rows.length > 300) rows.deleteRow(-1);
	};
	bar?.addEventListener("click", release);
	rows?.addEventListener("mouseleave", () => setTimeout(() => { if (!reads()) release(); }, 300));
	rows?.addEventListener("focusout", () => setTimeout(() => { if (!reads()) release(); }, 300));
	const panel = $("#panel");
	const closePanel = () => panel.replaceChildren();
	panel?.addEventListener("click", (e) => { if (e.target.closest("[data-close]")) closePanel(); });
	panel?.addEventListener("keydown", (e) => { if (e.key === "Escape") closePanel(); });

	on("before:swap", (e, ctx, {tasks}) => {
		if (rows && ctx.target === rows && reads()) {
			tasks.forEach((t) => { if (t.fragment) held.push(t.fragment); });
			$("#held-n").textContent = held.reduce((n, part) => n + part.children.length, 0);
			bar.hidden = false;
			e.preventDefault();
			return;
		}
		if (again(ctx) && !tasks[0]?.fragment.firstElementChild) e.preventDefault();
		ctx.done = tasks.some((t) => t.target?.id === "said" && t.fragment.textContent.trim());
	});
	on("after:swap", (e, ctx) => {
		const {target} = ctx;
		if (target.id === "rows") {
			$("#none")?.remove();
			while (target.rows.length > 300) target.deleteRow(-1);
			return;
		}
		label(document);
		if (target === panel) { panel.focus({preventScroll: true}); return; }
		if (target !== asked) return;
		if (ctx.done || !asked.firstElementChild) { asked.close(); return; }
		if (!asked.open) asked.showModal();
		$("#make, input", asked)?.focus();
	});
	// The page gives way to the one for signing in when its session has ended.
	on("sse:error", (e, ctx, {status}) => { if (status === 401) location.reload(); });
	// A link that is opened in another tab is the browser's.
	document.addEventListener("click", (e) => {
		if ((e.ctrlKey || e.metaKey || e.shiftKey) && e.target.closest("a[hx-boost]")) e.stopPropagation();
	}, true);

	const asked = $("#asked");
	asked?.addEventListener("click", (e) => {
		if (!e.target.closest("[data-close]")) return;
		e.preventDefault();
		asked.close();
	});
	asked?.addEventListener("close", () => asked.replaceChildren());

	// The page that somebody is on is in sight among the links of a phone.
	$(".side [aria-current]")?.scrollIntoView({block: "nearest", inline: "center"});

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
			if (e.key === "Escape") $("button[value=check]")?.focus();
			if (e.key !== "Tab" || e.shiftKey) return;
			e.preventDefault();
			text.setRangeText("  ", text.selectionStart, text.selectionEnd, "end");
		});
		$$("[data-line]").forEach((a) => a.addEventListener("click", (e) => { e.preventDefault(); go(+a.dataset.line); }));
		count();

		// What is wrong is said at its line while somebody writes.
		const wrong = $("#mistakes");
		let asking = false, waiting = 0;
		const check = async () => {
			if (asking) { later(); return; }
			asking = true;
			const asked = text.value;
			try {
				const r = await fetch("/settings/check", {method: "POST", body: new URLSearchParams({text: asked})});
				const {mistakes} = await r.json();
				if (text.value === asked) {
					bad.clear();
					wrong.replaceChildren(...mistakes.slice(0, 10).map((m) => {
						const item = document.createElement("li"), link = document.createElement("a");
						bad.add(String(m.Line));
						link.href = "#text";
						link.textContent = m.Line || "";
						link.addEventListener("click", (e) => { e.preventDefault(); go(m.Line); });
						item.append(link, " ", m.Key ? m.Key + ": " : "", m.Text);
						return item;
					}));
					wrong.hidden = !mistakes.length;
					count();
				}
			} catch { /* the gateway starts again: what is saved is checked anyway */ }
			asking = false;
		};
		const later = () => { clearTimeout(waiting); waiting = setTimeout(check, 900); };
		text.addEventListener("input", later);

		// Keys that the schema has at the place of the cursor.
		const hints = $("#hints");
		let schema;
		const forms = (s) => !s ? [] : s.$ref ? forms(s.$ref.split("/").slice(1).reduce((x, k) => x?.[k], schema)) : [s, ...(s.anyOf || s.oneOf || []).flatMap(forms)];
		const inside = (all, key) => all.flatMap((s) => key === "-" ? forms(s.items) : forms(s.properties?.[key] ?? (typeof s.additionalProperties === "object" ? s.additionalProperties : null)));
		// place returns the keys above the cursor, "-" for an entry of a list, and what
		// is written of the key it is at; null where no key can be.
		const place = () => {
			const lines = text.value.slice(0, text.selectionStart).split("\n");
			const begun = /^( *(?:- +)*)([\w-]*)$/.exec(lines.pop());
			if (!begun) return null;
			const path = [];
			let depth = begun[1].length;
			const entries = (lead) => { for (let i = lead.lastIndexOf("-"); i >= 0; i = i ? lead.lastIndexOf("-", i - 1) : -1) { path.unshift("-"); depth = i; } };
			entries(begun[1]);
			while (depth > 0 && lines.length) {
				const m = /^( *)((?:- +)*)([\w.-]+):/.exec(lines.pop());
				if (!m) continue;
				const lead = m[1] + m[2];
				if (lead.length < depth || path[0] === "-" && lead.length === depth && !m[2]) {
					path.unshift(m[3]);
					depth = lead.length;
				} else if (lead.length > depth || !m[2]) continue;
				if (m[2]) entries(lead);
			}
			return {path, word: begun[2], indent: begun[1].replace(/-/g, " ")};
		};
		const complete = (word, key) => { text.focus(); text.setRangeText(key + ": ", text.selectionStart - word.length, text.selectionStart, "end"); text.dispatchEvent(new Event("input")); };
		const hint = () => {
			const at = schema && place();
			let all = at ? at.path.reduce(inside, forms(schema)) : [];
			const keys = [...new Set(all.flatMap((s) => Object.keys(s.properties || {})))].filter((k) => k.startsWith(at.word) && k !== at.word).sort();
			while (hints.children.length > 1) hints.lastChild.remove();
			hints.append(...keys.slice(0, 40).map((k) => {
				const button = document.createElement("button");
				button.type = "button";
				button.textContent = k;
				button.addEventListener("click", () => complete(at.word, k));
				return button;
			}));
			hints.hidden = !keys.length;
			return keys.length ? {word: at.word, key: keys[0]} : null;
		};
		text.addEventListener("focus", async () => {
			if (schema === undefined) {
				schema = null;
				try { schema = await (await fetch("/settings/schema")).json(); } catch { /* without hints */ }
				hint();
			}
		});
		for (const on of ["input", "click", "keyup"]) text.addEventListener(on, hint);
		text.addEventListener("keydown", (e) => {
			if (e.key !== " " || !e.ctrlKey) return;
			e.preventDefault();
			const first = hint();
			if (first) complete(first.word, first.key);
		});
	}

	// A form is sent once; the button says that it works.
	$$("form[method=post]").forEach((form) => form.addEventListener("submit", (e) => {
		if (form.dataset.sent) { e.preventDefault(); return; }
		form.dataset.sent = "yes";
		form.setAttribute("aria-busy", "true");
	}));
	addEventListener("pageshow", () => $$("form[data-sent]").forEach((form) => { delete form.dataset.sent; form.removeAttribute("aria-busy"); }));
})();
