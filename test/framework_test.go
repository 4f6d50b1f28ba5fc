package test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// framework is a server that renders a whole document with React, as Remix and Next do: it streams what is
// ready, and later the rest, and the browser hydrates the document.
const framework = `
const http = require('http'), fs = require('fs'), path = require('path'), [modules, port] = process.argv.slice(2);
const at = name => path.join(modules, name), React = require(at('react')), server = require(at('react-dom/server'));
const app = ` + "`" + `function app(React, wait) {
	const h = React.createElement;
	function Later() { if (wait) wait(); return h('p', {id: 'later'}, 'the ferry comes back in the evening'); }
	return function App() {
		const [n, set] = React.useState(0);
		return h('html', null, h('head', null, h('meta', {charSet: 'utf-8'}), h('title', null, 'Ferry'), h('link', {rel: 'stylesheet', href: '/style.css'})),
			h('body', null, h('button', {id: 'button', onClick: () => set(n + 1)}, 'clicked ', n), h('div', {id: 'ad', className: 'advert'}, 'AD'),
				h(React.Suspense, {fallback: h('i', null, 'wait')}, h(Later))));
	};
}` + "`" + `;
const client = fs.readFileSync(at('react/umd/react.production.min.js')) + ';' + fs.readFileSync(at('react-dom/umd/react-dom.production.min.js')) + ';' + app + "; window.errors = []; addEventListener('error', e => errors.push(e.message));" +
	"ReactDOM.hydrateRoot(document, React.createElement(app(React)), {onRecoverableError: e => errors.push(String(e))});";
http.createServer((q, s) => {
	const url = new URL(q.url, 'http://x').pathname;
	if (url === '/client.js') return s.writeHead(200, {'content-type': 'text/javascript'}).end(client);
	if (url !== '/') return s.writeHead(200, {'content-type': 'text/css'}).end('#ad { color: red }');
	let done = false, promise;
	const wait = () => { if (!done) throw promise ||= new Promise(r => setTimeout(() => { done = true; r() }, 700)) };
	const page = server.renderToPipeableStream(React.createElement(new Function(app + '; return app')()(React, wait)), {
		bootstrapScripts: ['/client.js'],
		onShellReady() { s.writeHead(200, {'content-type': 'text/html'}); page.pipe(s) },
	});
}).listen(port, '127.0.0.1');
`

// TestAFrameworkHydratesWhatTheGatewayChanged: a streamed document in which elements are hidden and whose
// words are judged becomes the application's, without an error.
func TestAFrameworkHydratesWhatTheGatewayChanged(t *testing.T) {
	t.Parallel()
	peer.Program(t, "node")
	cached, _ := os.UserCacheDir()
	modules := filepath.Join(cached, "shuultuur-test", "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "react-dom", "umd")); err != nil {
		t.Skip(`the npm package react-dom is not installed; "make test" installs it where npm is`)
	}
	dir, port := t.TempDir(), peer.Port(t)
	for name, text := range map[string]string{
		"server.js": framework,
		"ads.txt":   "##.advert\n",
		"words":     "<blimey><60>\n",
		"shuultuur.yaml": fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
proxy: {private: [127.0.0.0/8], safe-ports: [any], parent: "http://127.0.0.1:%s"}
lists:
  ads: {path: ads.txt, format: adblock}
checks: {category: {lists: [ads]}, phrase: {weighted: [words]}}
policies:
  - name: all
    hide: true
    rules: [{name: refused, action: block, category: [ads]}, {name: words, action: block, category: [phrase], over: 50}]
`, port),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	peer.Start(t, "node", filepath.Join(dir, "server.js"), modules, port)
	p := start(t, filepath.Join(dir, "shuultuur.yaml"))
	b := newBrowser(t, p.proxy)
	const state = `const text = id => (document.getElementById(id) || {}).textContent, ad = document.getElementById('ad');
		return [text('button'), text('later'), ad && getComputedStyle(ad).display, (window.errors || ['no application']).join()].join('|')`
	const want = "clicked 1|the ferry comes back in the evening|none|"
	got := ""
	for end := time.Now().Add(20 * time.Second); got != want && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got == "" {
			b.open("http://ferry.example/")
		}
		b.script(`const b = document.getElementById('button'); if (b && b.textContent === 'clicked 0') b.click()`)
		got = fmt.Sprint(b.script(state))
	}
	if got != want {
		t.Errorf("button, later part, display of the advertisement and errors are %q, want %q", got, want)
	}
}
