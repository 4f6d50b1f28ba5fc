//go:build !small

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/lib/release"
)

// Assistants query the filter by the Model Context Protocol (revision
// 2025-06-18, streamable HTTP, without streams from the server). A tool is a
// request to the API in the name of the user, with the same role, scope,
// visibility and audit log. No tool changes anything: tools that propose a
// change return the address of a page where a person makes it.

const (
	maxMCP       = 4 * web.MaxSettings // most bytes of a message: settings, as a text in JSON
	maxMCPAnswer = 256 << 10           // most bytes of an answer that are passed on
	mcpRows      = 50                  // events in an answer, unless the call gives a number
)

const mcpSays = "Shuultuur filters the web for a network. The tools only read: what would happen to an address and why, what happened, sums, the settings, and what other settings would have changed. To open or block a site or to pause filtering, show the person the address that a propose tool returns: they decide there."

// A tool is a function that an assistant may call.
type tool struct {
	name, says string
	args       []web.Field
	ask        func(a url.Values) (method, path, body string) // the request to the API
	page       string                                         // instead of a request: the page on which a person decides
}

// reading requests a path with the arguments as its query.
func reading(path string) func(url.Values) (string, string, string) {
	return func(a url.Values) (string, string, string) { return http.MethodGet, path + "?" + a.Encode(), "" }
}

func (x *assistants) tools() []tool {
	of := func(name, path string, more ...web.Field) tool {
		var o web.Route
		if i := slices.IndexFunc(x.rows, func(r web.Route) bool { return r.Method == http.MethodGet && r.Path == path }); i >= 0 {
			o = x.rows[i]
		}
		return tool{name: name, says: o.Does, args: append(slices.Clone(o.Query), more...), ask: reading(path)}
	}
	site, who := web.Required("site", "host name, with everything below it"), web.Optional("who", "address, network, user or group; everyone without it")
	return []tool{
		of("why", "/why"),
		of("events", "/events", web.Optional("most", "how many, 50 without it, 200 at most")),
		of("statistics", "/statistics"),
		of("settings", "/settings"),
		{name: "what_if", says: "what other settings would have changed in the last day; nothing is saved", args: []web.Field{web.Required("text", "the whole file of settings, as it would be")},
			ask: func(a url.Values) (string, string, string) {
				return http.MethodPut, "/settings?dry_run=true", a.Get("text")
			}},
		{name: "propose_ruling", says: "the address of a page where a person opens or blocks a site, or does not", args: []web.Field{site, who}, page: "/rulings"},
		{name: "propose_pause", says: "the address of a page where a person pauses filtering for somebody, or does not", args: []web.Field{who}, page: "/pause"},
	}
}

// An mcpMessage is a request or notification of JSON-RPC 2.0.
type mcpMessage struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// A fault is an error of JSON-RPC 2.0.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Codes of JSON-RPC 2.0.
const (
	notJSON    = -32700
	notRequest = -32600
	noMethod   = -32601
	badParams  = -32602
)

// assistants answers calls with the routes of the API.
type assistants struct {
	site *web.Site
	rows []web.Route // of the API
}

// AssistantRoutes returns the route of assistants.
//
//	POST /mcp             a message of the Model Context Protocol
func AssistantRoutes(site *web.Site, rows []web.Route) []web.Route {
	return []web.Route{{Method: "POST", Path: web.MCPPath, Role: web.Viewer,
		Does: "a message of the Model Context Protocol: assistants ask why, what if, for events, sums and settings", Body: "application/json",
		Effect:  web.OfNothing,
		Handler: (&assistants{site, rows}).serve}}
}

func (x *assistants) serve(w http.ResponseWriter, r *http.Request) {
	if v := r.Header.Get("Mcp-Protocol-Version"); v != "" && !slices.Contains(mcpVersions(), v) {
		http.Error(w, fmt.Sprintf("the revision %q of the Model Context Protocol is not supported here; %s are", v, strings.Join(mcpVersions(), ", ")), http.StatusBadRequest)
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMCP))
	if err != nil {
		http.Error(w, fmt.Sprintf("reading the message, of which %d bytes are taken: %v", maxMCP, err), http.StatusRequestEntityTooLarge)
		return
	}
	var m mcpMessage
	if err := web.Unambiguous(text); err != nil {
		web.WriteJSON(w, http.StatusBadRequest, reply(nil, nil, &fault{notJSON, "the message cannot be read as JSON: " + err.Error()}))
		return
	}
	if json.Unmarshal(text, &m) != nil || m.Version != "2.0" || m.Method == "" {
		web.WriteJSON(w, http.StatusBadRequest, reply(nil, nil, &fault{notRequest, "send one request of JSON-RPC 2.0"}))
		return
	}
	if m.ID == nil { // a notification: none has an effect
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result, bad := x.answer(r, &m)
	web.WriteJSON(w, http.StatusOK, reply(m.ID, result, bad))
}

func reply(id json.RawMessage, result any, bad *fault) object {
	o := object{"jsonrpc": "2.0", "id": id}
	if bad != nil {
		o["error"] = bad
	} else {
		o["result"] = result
	}
	return o
}

// mcpVersions are the revisions that are spoken, the newest first.
func mcpVersions() []string { return []string{"2025-06-18", "2025-03-26", "2024-11-05"} }

func (x *assistants) answer(r *http.Request, m *mcpMessage) (any, *fault) {
	switch m.Method {
	case "initialize":
		var asked struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		if err := json.Unmarshal(m.Params, &asked); err != nil {
			return nil, &fault{badParams, "initialize: " + err.Error()}
		}
		version := asked.ProtocolVersion
		if all := mcpVersions(); !slices.Contains(all, version) {
			version = all[0]
		}
		return object{"protocolVersion": version, "capabilities": object{"tools": object{}}, "instructions": mcpSays,
			"serverInfo": object{"name": "shuultuur", "title": "Shuultuur", "version": release.Version()}}, nil
	case "ping":
		return object{}, nil
	case "tools/list":
		all := []object{}
		for _, t := range x.tools() {
			all = append(all, t.describe())
		}
		return object{"tools": all}, nil
	case "tools/call":
		var call struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		}
		if err := json.Unmarshal(m.Params, &call); err != nil {
			return nil, &fault{badParams, "tools/call: " + err.Error()}
		}
		all := x.tools()
		i := slices.IndexFunc(all, func(t tool) bool { return t.name == call.Name })
		if i < 0 {
			return nil, &fault{badParams, fmt.Sprintf("there is no tool %q; tools/list names them", call.Name)}
		}
		text, err := x.call(r, &all[i], call.Arguments)
		if err != nil {
			text = err.Error()
		}
		return object{"content": []object{{"type": "text", "text": text}}, "isError": err != nil}, nil
	}
	return nil, &fault{noMethod, fmt.Sprintf("there is no method %q", m.Method)}
}

func (t *tool) describe() object {
	fields, required := object{}, []string{}
	for _, f := range t.args {
		fields[f.Name] = object{"type": "string", "description": f.What}
		if f.Required {
			required = append(required, f.Name)
		}
	}
	return object{"name": t.name, "description": t.says, "annotations": object{"readOnlyHint": true, "openWorldHint": false},
		"inputSchema": object{"type": "object", "properties": fields, "required": required, "additionalProperties": false}}
}

// values reads the arguments of a call. It converts numbers to texts.
func (t *tool) values(given map[string]any) (url.Values, error) {
	a := url.Values{}
	for name, v := range given {
		if !slices.ContainsFunc(t.args, func(f web.Field) bool { return f.Name == name }) {
			return nil, fmt.Errorf("%s has no argument %q", t.name, name)
		}
		switch v := v.(type) {
		case string:
			a.Set(name, v)
		case float64:
			a.Set(name, strconv.FormatFloat(v, 'f', -1, 64))
		case nil:
		default:
			return nil, fmt.Errorf("%s: the argument %q is a text", t.name, name)
		}
	}
	for _, f := range t.args {
		if f.Required && a.Get(f.Name) == "" {
			return nil, fmt.Errorf("%s: the argument %q is missing: %s", t.name, f.Name, f.What)
		}
	}
	return a, nil
}

// call sends a request to the API in the name of the caller and returns the
// answer.
func (x *assistants) call(r *http.Request, t *tool, given map[string]any) (string, error) {
	a, err := t.values(given)
	if err != nil {
		return "", err
	}
	if t.page != "" {
		at := url.URL{Scheme: "http", Host: r.Host, Path: t.page, RawQuery: a.Encode()}
		if r.TLS != nil {
			at.Scheme = "https"
		}
		return "Nothing is changed yet. A person decides at " + at.String(), nil
	}
	most := 0 // lines
	if t.name == "events" {
		most = mcpRows
		if s := a.Get("most"); s != "" {
			if most, err = strconv.Atoi(s); err != nil || most < 1 {
				return "", fmt.Errorf("events: most is a number from 1 to 200, not %q", s)
			}
		}
		a.Del("most")
	}
	method, path, body := t.ask(a)
	q, err := http.NewRequestWithContext(r.Context(), method, path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	q.Host, q.RemoteAddr, q.TLS = r.Host, r.RemoteAddr, r.TLS
	for _, h := range []string{"Authorization", "Cookie"} {
		q.Header[h] = r.Header[h]
	}
	q.Header.Set("Accept", "application/json")
	answer := &heldAnswer{header: http.Header{}, status: http.StatusOK}
	x.site.ServeHTTP(answer, q)
	if answer.status >= http.StatusBadRequest {
		return "", fmt.Errorf("%s (%d)", strings.TrimSpace(answer.text.String()), answer.status)
	}
	text := answer.text.String()
	if most > 0 {
		if lines := strings.SplitAfter(text, "\n"); len(lines) > most+1 {
			text, answer.cut = strings.Join(lines[:most], ""), true
		}
	}
	if answer.cut {
		text += "\n(There is more: ask for less.)"
	}
	return text, nil
}

// heldAnswer keeps the beginning of an answer.
type heldAnswer struct {
	header http.Header
	status int
	text   bytes.Buffer
	cut    bool
}

func (h *heldAnswer) Header() http.Header { return h.header }

func (h *heldAnswer) WriteHeader(status int) { h.status = status }

func (h *heldAnswer) Write(b []byte) (int, error) {
	n := min(len(b), maxMCPAnswer-h.text.Len())
	h.text.Write(b[:n])
	h.cut = h.cut || n < len(b)
	return len(b), nil
}
