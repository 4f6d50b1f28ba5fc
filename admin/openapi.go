//go:build !small

package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"shuultuur/arrange"
)

// The description of the API is generated from the table of routes, so that no
// route is missing, and from the table below, which describes the parameters and
// answers of each.

// An operation is the description of a route.
type operation struct {
	does  string
	query []field
	form  []field
	body  string // media types of a body that is not a form, with blanks between them
	gives string // media types of the answer; "" is JSON
}

// A field is a parameter of a query or a form. What it means is a text, or the values that it
// may have, with " | " between them.
type field struct {
	name, what string
	required   bool
}

func may(name, what string) field  { return field{name, what, false} }
func must(name, what string) field { return field{name, what, true} }

const (
	pageOrJSON = "application/json text/html"
	anyText    = "text/plain"
	anyBytes   = "application/octet-stream"
)

var (
	seconds      = []field{may("seconds", "how long to look, in seconds")}
	code         = may("code", "one-time code or recovery code")
	onTrial      = may("dry_run", "true: say the effect and save nothing")
	id           = []field{must("id", "identifier")}
	nameOf       = must("name", "name of the account")
	personParams = []field{may("user", "name of the user"), may("client", "addresses of devices that nobody else uses, with commas")}
	newWord      = must("password", "the new password, ten characters or more")
)

// recordFields returns the parts of a record's data, of all types.
func recordFields() (all []field) {
	for _, name := range slices.Sorted(maps.Keys(recordLabels)) {
		if name != "data" {
			all = append(all, may(name, recordLabels[name]))
		}
	}
	return all
}

// operations returns the descriptions by method and path. Long because it is one
// table.
func operations() map[string]operation {
	return map[string]operation{
		"GET /{$}":                    {does: "the start page; for programs the paths there are", gives: anyText + " text/html"},
		"GET /static/{digest}/{name}": {does: "style sheet, script and icon of the pages", gives: anyBytes},
		"GET /overview":               {does: "the last hour by verdict, and how long things took"},
		"GET /metrics":                {does: "metrics for Prometheus", gives: anyText},
		"GET /health":                 {does: "state and problems"},
		"GET /ready":                  {does: "200 while the gateway serves, else 503"},
		"GET /openapi.json":           {does: "this description"},
		"GET /api":                    {does: "the description as a page, with forms to try it", gives: "text/html"},
		"GET /debug/pprof/":           {does: "profiles", gives: "text/html " + anyBytes},
		"GET /debug/pprof/cmdline":    {does: "the command line of the gateway", gives: anyText},
		"GET /debug/pprof/profile":    {does: "a profile of processor time", query: seconds, gives: anyBytes},
		"GET /debug/pprof/trace":      {does: "an execution trace", query: seconds, gives: anyBytes},
		"GET /debug/pprof/block":      {does: "waits for others, sampled for some seconds", query: seconds, gives: anyBytes},
		"GET /debug/pprof/mutex":      {does: "waits for locks, sampled for some seconds", query: seconds, gives: anyBytes},
		"GET /events": {does: "transactions on record, the newest first, 200 at once; the Link header has the next page", gives: "application/x-ndjson text/html",
			query: []field{may("filter", "words and fields, such as host:example.com action:block"), may("last", "how long to look back: 1h, 7d"), may("before", "only those older than the one at this place"), may("order", "oldest: the oldest first"), may("after", "of these, only those after the one at this place"), may("by", "count by this field instead"), may("top", "how many sums, 10 without it")}},
		"POST /events": {does: "block or allow the host of a transaction", gives: "application/x-ndjson text/html",
			form: []field{must("what", "block | allow | unblock | unallow"), must("entry", "host name"), may("category", "category of the list"), may("list", "list that a block goes into"), onTrial}},
		"GET /events/live": {does: "what is recorded from now on, as server-sent events", gives: "text/event-stream",
			query: []field{may("filter", "words and fields, such as host:example.com action:block"), may("form", "json for JSON in the events; else they are rows of the page")}},
		"GET /events/{id}":   {does: "one transaction in full; the page says what would be decided now", gives: pageOrJSON},
		"GET /pictures":      {does: "what was found in pictures, the newest first; who looks is in the audit log", gives: pageOrJSON},
		"GET /pictures/{id}": {does: "a blurred thumbnail", query: id, gives: "image/jpeg"},
		"GET /why": {does: "what would happen to an address, for whom, and why", gives: pageOrJSON,
			query: []field{must("url", "URL"), may("client", "address of the client"), may("user", "name of the user"), may("groups", "groups of the user, with commas"), may("as", "the policy, instead of the one that covers the client")}},
		"GET /policies": {does: "policies and rules in use", query: []field{may("name", "name")}, gives: pageOrJSON},
		"GET /rulings":  {does: "sites opened or blocked by hand", gives: pageOrJSON},
		"POST /rulings": {does: "open or block a site above lists and rules, or end that", gives: pageOrJSON,
			form: []field{must("what", "open | block | end"), must("site", "host name, with everything below it"), may("who", "address, network, user or group; everybody without it"), may("for", "how long: 15m, 7d; for good without it"), onTrial}},
		"POST /policies": {does: "move, edit, add or remove a rule, or change times; what alters nothing of the last day is saved at once, else a page shows it first", gives: pageOrJSON,
			form: []field{must("tag", "ETag of the settings"), must("policy", "its place, from 0"), must("what", "first | move | edit | add | remove | window | always"), may("rule", "its place, from 0"), may("to", "new place, from 0"), may("text", "the rule as YAML"), may("day", "mon to sun; several times"), may("from", "hour"), may("until", "hour"), onTrial}},
		"GET /clients":     {does: "people, groups, and devices without a name", query: []field{may("q", "name, address or group")}, gives: pageOrJSON},
		"GET /clients/one": {does: "what one client, user or group may do and has used", query: []field{must("who", "address, user or group")}, gives: pageOrJSON},
		"POST /clients": {does: "name a device, or change who is in a group", gives: pageOrJSON,
			form: []field{must("what", "name | join | leave | forget"), may("address", "address of the device"), may("name", "name of the user"), may("group", "name of the group"), onTrial}},
		"POST /bonus":        {does: "give somebody more time than quotas say, for the rest of the day; helpers for their own groups", form: []field{must("who", "address, user or group"), must("minutes", "1 to 240; 0 takes back what was given"), onTrial}, gives: pageOrJSON},
		"GET /system":        {does: "versions, garbage collector, scheduler, and what is remembered", gives: pageOrJSON},
		"GET /system/backup": {does: "settings, accounts, versions and keys in one file", gives: "application/gzip"},
		"GET /names":         {does: "upstreams and cache of the name server; asks the upstreams for a name", query: []field{may("name", "name"), may("type", "type of record; A without it")}, gives: pageOrJSON},
		"POST /names/flush":  {does: "empty the cache of names", gives: pageOrJSON},
		"GET /settings":      {does: "the file of settings, with its ETag", gives: "application/yaml text/html"},
		"PUT /settings": {does: "replace the settings whose ETag is in If-Match; says what that would have changed in the last day", body: "application/yaml",
			query: []field{onTrial, may("reason", "reason, for the history")}},
		"POST /settings": {does: "the form of the page: check the settings, then save them", gives: "text/html",
			form: []field{must("what", "check | save"), must("text", "the settings as YAML"), must("tag", "ETag of the settings"), may("checked", "tag of the text whose effect was seen"), may("reason", "reason, for the history"), onTrial}},
		"GET /settings/versions":      {does: "who saved settings, when and why, the newest first"},
		"GET /settings/versions/{id}": {does: "one version of the settings", gives: pageOrJSON},
		"GET /setup":                  {does: "the first steps, by a link that is good once", query: []field{must("token", "token of the link")}, gives: "text/html"},
		"POST /setup": {does: "write settings for the answers of the first steps", gives: "text/html",
			form: []field{must("token", "token of the link"), must("who", "home | school | company"), must("way", "both | proxy | dns"), may("topic", "what is filtered; several times"), may("network", "yes: the whole network"), may("certificate", "yes: look into encrypted connections"), may("contact", "whom a blocked person may ask")}},
		"GET /setup/done": {does: "what the first steps have set up, and whether it works", gives: "text/html"},
		"GET /statistics": {does: "sums of the last hour and day", gives: pageOrJSON},
		"GET /lists":      {does: "lists in use, or which of them have a host or URL", query: []field{may("q", "host or URL to look for")}, gives: pageOrJSON},
		"POST /lists": {does: "change one entry of a list", gives: pageOrJSON,
			form: []field{must("what", "add | except | remove"), must("entry", "host or URL"), must("list", "name of the list"), may("category", "if the list has several"), may("exact", "1: without subdomains"), onTrial}},
		"POST /events/searches": {does: "keep a search of the record for who asks, or remove it", gives: pageOrJSON,
			form: []field{must("name", "what it is called"), may("filter", "as in GET /events; without it the search is removed"), may("last", "how long to look back: 1h, 7d")}},
		"GET /settings/schema": {does: "the JSON schema of the settings", gives: "application/schema+json"},
		"POST /settings/check": {does: "say what is wrong with a text of settings; nothing is changed", form: []field{must("text", "the settings as YAML")}},
		"GET /lists/{name}":    {does: "one list: where it comes from, how fresh it is, its versions, what it blocked in the last day", query: []field{may("odd", "yes: what is odd about its lines")}, gives: pageOrJSON},
		"POST /lists/{name}/source": {does: "fetch a newer version of a list, or go back to the one before", gives: pageOrJSON,
			form: []field{must("what", "fetch | back"), onTrial}},
		"POST /lists/{name}": {does: "make changes to a list, all or none", query: []field{onTrial}, body: "application/json application/x-ndjson text/csv"},
		"GET /pause":         {does: "for whom filtering is paused", gives: pageOrJSON},
		"POST /pause": {does: "pause filtering; helpers for their own groups", gives: pageOrJSON,
			form: []field{must("for", "how long: 30s, 5m, 24h at most, tomorrow; 0s ends it"), may("who", "address, network, user or group; everybody without it"), onTrial}},
		"GET /alerts":      {does: "alerts, open ones first", gives: pageOrJSON},
		"GET /alerts/{id}": {does: "an alert, with what was before and after", gives: pageOrJSON},
		"POST /alerts/{id}": {does: "acknowledge, close or open an alert", gives: pageOrJSON,
			form: []field{must("does", "acknowledged | closed | open"), may("note", "what was done; needed to close")}},
		"GET /votes": {does: "cases that wait for a decision", gives: pageOrJSON},
		"POST /votes": {does: "decide a case", gives: pageOrJSON,
			form: []field{must("remedy", "identifier"), must("action", "open | block | keep"), may("who", "for whom; everybody without it"), may("for", "how long: 15m, 7d; for good without it"), may("site", "host name"), may("reason", "answer to those who asked"), onTrial}},
		"POST /votes/withdraw": {does: "take a decision back", form: append(slices.Clone(id), onTrial), gives: pageOrJSON},
		"GET /votes/decisions": {does: "the history of decisions"},
		"GET /votes/counts":    {does: "votes counted", query: []field{must("by", "host | url | category | entry | group"), may("name", "only this one")}},
		"GET /votes/export":    {does: "cases to send on", query: []field{must("format", "text | csv | json"), may("remedy", "only this one")}, gives: "text/plain text/csv application/json"},
		"GET /reports":         {does: "a day or a week summed up", gives: "application/json text/html text/csv application/pdf", query: []field{may("span", "day | today | week | 7d"), may("group", "only these people"), may("person", "only this user or address"), may("format", "json | csv | pdf")}},
		"POST /mcp":            {does: "a message of the Model Context Protocol: assistants ask why, what if, for events, sums and settings", body: "application/json"},
		"GET /checks":          {does: "odd lines of phrase lists, and what signature rules have cost", gives: pageOrJSON},
		"GET /zones":           {does: "zones of our own", gives: pageOrJSON},
		"POST /zones":          {does: "make a zone with one name server, as a file or in Redis", gives: pageOrJSON, form: []field{must("origin", "name of the zone"), may("in", "redis; a file without it"), may("server", "name server; ns in the zone without it"), may("address", "address of a name server in the zone"), onTrial}},
		"GET /zones/{origin}":  {does: "records of a zone, and the text of its file", gives: pageOrJSON, query: []field{may("view", "view of the zone"), may("q", "name, type or data"), may("after", "how many to leave out, for the next page"), may("type", "type of record"), may("record", "identifier"), may("version", "identifier")}},
		"POST /zones/{origin}": {does: "replace the text of a zone, or take a version back", gives: pageOrJSON, form: []field{may("text", "text of the file"), may("version", "identifier"), may("tag", "tag of the text that is replaced"), may("view", "view of the zone"), may("reason", "reason, for the history"), onTrial}},
		"POST /zones/{origin}/record": {does: "add, change or delete one record of a zone", gives: pageOrJSON,
			form: slices.Concat([]field{must("what", "add | change | delete"), may("record", "identifier"), may("name", "name"), may("type", "type of record"), may("ttl", "In seconds; empty for that of the zone."), may("data", "data as in a zone file")}, recordFields(),
				[]field{may("tag", "tag of the text that is replaced"), may("view", "view of the zone"), may("reason", "reason, for the history"), onTrial})},
		"POST /zones/{origin}/delete":  {does: "delete a zone", gives: pageOrJSON, form: []field{may("tag", "tag of the text that is replaced"), may("view", "view of the zone"), onTrial}},
		"POST /zones/{origin}/restore": {does: "restore a deleted zone", form: []field{onTrial}, gives: pageOrJSON},
		"GET /cache":                   {does: "figures of the cache", gives: pageOrJSON},
		"GET /cache/look":              {does: "what is stored for a URL", query: []field{must("url", "URL"), may("field", "field of the request, NAME: VALUE")}},
		"GET /api/sessions":            {does: "who has which address for now", query: []field{may("address", "whose session")}},
		"POST /api/sessions":           {does: "start, renew or stop sessions of addresses: an object or a list of them, or a form", body: "application/json application/x-www-form-urlencoded"},
		"DELETE /api/sessions":         {does: "stop the session of an address", query: []field{must("address", "whose session"), may("id", "only the session that was started with it")}},
		"POST /cache/purge":            {does: "take something out of the cache", form: []field{must("kind", "url | prefix | host | tag | category"), must("value", "what is taken out")}, gives: pageOrJSON},
		"GET /ca":                      {does: "how to install the root certificate", gives: "text/html"},
		"GET /ca/{file}":               {does: "the root certificate: root.pem, root.crt, root.cer or root.mobileconfig", gives: anyBytes},
		"GET /refusals":                {does: "hosts proposed as exceptions from interception"},
		"GET /quotas":                  {does: "what a client has left of its quotas", query: []field{must("client", "address"), may("user", "name of the user"), may("policy", "the one that covers the client without it")}},

		"GET /login":                    {does: "the page to sign in", query: []field{may("to", "path to go to then")}, gives: "text/html"},
		"POST /login":                   {does: "begin a session; the answer sets its cookie", form: []field{nameOf, must("password", "password"), code, may("to", "path to go to then")}, gives: pageOrJSON},
		"GET /login/provider":           {does: "go to the OpenID provider to sign in", query: []field{may("to", "path to go to then")}, gives: "text/html"},
		"GET /login/callback":           {does: "come back from the OpenID provider, which begins a session", query: []field{may("code", "code of the provider"), may("state", "state of the sign-in")}, gives: "text/html"},
		"POST /login/passkey/challenge": {does: "what a passkey is to sign"},
		"POST /login/passkey":           {does: "begin a session with a passkey", query: []field{may("to", "path to go to then")}, body: "application/json"},
		"POST /logout":                  {does: "end the session", gives: pageOrJSON},
		"GET /account":                  {does: "one's own account, sessions and tokens", gives: pageOrJSON},
		"POST /account/password":        {does: "change one's password; all sessions end", form: []field{must("old", "the password until now"), newWord}, gives: pageOrJSON},
		"POST /account/totp":            {does: "offer a secret for one-time codes; with a code, take it into use and give recovery codes", form: []field{code}, gives: pageOrJSON},
		"POST /account/totp/end":        {does: "end one-time codes", form: []field{must("password", "password")}, gives: pageOrJSON},
		"POST /account/sessions/end":    {does: "end one of one's sessions", form: id, gives: pageOrJSON},
		"POST /account/tokens": {does: "make a token, which is shown this once", gives: pageOrJSON,
			form: []field{must("scope", "read, write, or a method and path; several with commas"), may("purpose", "what it is for"), may("for", "how long: 90d without it, 366d at most")}},
		"POST /account/tokens/end":         {does: "end one of one's tokens", form: id, gives: pageOrJSON},
		"POST /account/passkeys/challenge": {does: "what a new passkey is to answer"},
		"POST /account/passkeys":           {does: "add a passkey", body: "application/json"},
		"POST /account/passkeys/end":       {does: "remove a passkey", form: id, gives: pageOrJSON},
		"GET /accounts":                    {does: "all accounts", gives: pageOrJSON},
		"POST /accounts":                   {does: "add an account", form: []field{nameOf, must("role", "viewer | helper | safeguarding-lead | operator | owner"), may("groups", "groups of a helper, with commas"), may("password", "ten characters or more")}, gives: pageOrJSON},
		"POST /accounts/edit":              {does: "change role and groups; sessions end", form: []field{nameOf, must("role", "viewer | helper | safeguarding-lead | operator | owner"), may("groups", "groups of a helper, with commas")}, gives: pageOrJSON},
		"POST /accounts/password":          {does: "set a password; sessions end", form: []field{nameOf, newWord}, gives: pageOrJSON},
		"POST /accounts/totp/end":          {does: "end the one-time codes of somebody who lost their authenticator", form: []field{nameOf}, gives: pageOrJSON},
		"POST /accounts/remove":            {does: "remove an account with its tokens and sessions", form: []field{nameOf}, gives: pageOrJSON},
		"GET /accounts/sessions":           {does: "sessions of everybody"},
		"POST /accounts/sessions/end":      {does: "end somebody's session", form: id, gives: pageOrJSON},
		"GET /accounts/tokens":             {does: "tokens of everybody"},
		"POST /accounts/tokens/end":        {does: "end somebody's token", form: id, gives: pageOrJSON},
		"GET /audit":                       {does: "the audit log, the newest first, 100 at once", query: []field{may("before", "only entries before this one")}, gives: pageOrJSON},
		"GET /audit/verify":                {does: "whether the chain of the audit log holds"},
		"GET /privacy":                     {does: "the page of one person's data", gives: "text/html"},
		"GET /privacy/export":              {does: "all that is on record of a person, as JSON lines", query: personParams, gives: "application/x-ndjson"},
		"POST /privacy/erase":              {does: "erase a person's data for good", form: append(slices.Clone(personParams), may("dry_run", "true: only count"))},
		"GET /looks":                       {does: "looks into somebody's browsing that wait or hold", gives: pageOrJSON},
		"POST /looks":                      {does: "ask for a look", form: []field{must("whom", "user or address"), must("reason", "reason"), may("what", "look | erase")}, gives: pageOrJSON},
		"POST /looks/agree":                {does: "agree to somebody else's look", form: id, gives: pageOrJSON},
		"POST /looks/end":                  {does: "take a look back", form: id, gives: pageOrJSON},
	}
}

type object = map[string]any

var inPath = regexp.MustCompile(`\{([a-z]+)(\.\.\.)?\}`)

// pathOf returns the path of a route in OpenAPI's syntax.
func (r route) pathOf() string {
	return strings.ReplaceAll(strings.TrimSuffix(r.path, "{$}"), "...}", "}")
}

// describe makes the description of some routes.
func describe(all []route) object {
	paths, words := object{}, operations()
	for _, r := range all {
		path, _ := paths[r.pathOf()].(object)
		if path == nil {
			path = object{}
			paths[r.pathOf()] = path
		}
		path[strings.ToLower(r.method)] = r.describe(words[r.method+" "+r.path])
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Shuultuur", "version": "1", "license": object{"name": "BSD-2-Clause", "identifier": "BSD-2-Clause"},
			"description": "The admin address of a gateway. Each operation names the least role that may use it, as x-role. Errors are texts for a person."},
		"paths": paths,
		"components": object{"securitySchemes": object{
			"token":   object{"type": "http", "scheme": "bearer", "description": "a token of an account, or listen.token"},
			"session": object{"type": "apiKey", "in": "cookie", "name": cookieName},
		}},
	}
}

func (r route) describe(o operation) object {
	d := object{"operationId": strings.ToLower(r.method) + regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(r.pathOf(), "-"),
		"summary": cmp.Or(o.does, r.pathOf()), "x-role": r.role.String(), "responses": r.responses(o)}
	var params []object
	for _, m := range inPath.FindAllStringSubmatch(r.path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, f := range o.query {
		params = append(params, object{"name": f.name, "in": "query", "required": f.required, "description": f.what, "schema": object{"type": "string"}})
	}
	if params != nil {
		d["parameters"] = params
	}
	content := object{}
	if len(o.form) > 0 {
		fields, required := object{}, []string{}
		for _, f := range o.form {
			fields[f.name] = object{"type": "string", "description": f.what}
			if f.required {
				required = append(required, f.name)
			}
		}
		content["application/x-www-form-urlencoded"] = object{"schema": object{"type": "object", "properties": fields, "required": required}}
	}
	for kind := range strings.FieldsSeq(o.body) {
		content[kind] = object{"schema": object{}}
	}
	if len(content) > 0 {
		d["requestBody"] = object{"required": o.body != "" || slices.ContainsFunc(o.form, func(f field) bool { return f.required }), "content": content}
	}
	switch r.role {
	case anyone:
		d["security"] = []object{}
	case monitor:
		d["security"] = []object{{}, {"token": []string{}}, {"session": []string{}}}
	default:
		d["security"] = []object{{"token": []string{}}, {"session": []string{}}}
	}
	return d
}

func (r route) responses(o operation) object {
	content := object{}
	for kind := range strings.FieldsSeq(cmp.Or(o.gives, "application/json")) {
		content[kind] = object{"schema": object{}}
	}
	all := object{"200": object{"description": "done", "content": content}}
	text := func(status, what string) {
		all[status] = object{"description": what, "content": object{anyText: object{"schema": object{"type": "string"}}}}
	}
	if len(o.query)+len(o.form) > 0 || o.body != "" || strings.Contains(r.path, "{") {
		text("400", "what was sent is wrong")
		text("404", "there is nothing of that name")
	}
	if r.role > anyone {
		text("401", "nobody is signed in, or the token is wrong")
		text("429", "too many wrong tokens or passwords came from this address")
	}
	text("403", "not for this role, scope, Host or Origin")
	text("503", "it cannot be answered or recorded now")
	return all
}

// apiRoutes describe the API: routes are all others.
//
//	GET /openapi.json     OpenAPI 3.1
//	GET /api              a page with forms to try it
func apiRoutes(routes []route, notice noticeFunc) []route {
	var document []byte // of the routes here as well
	page := pageOf("api.html", notice)
	mine := []route{
		{"GET", "/openapi.json", viewer, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(document) // the client went away: no one to notify
		}},
		{"GET", "/api", viewer, func(w http.ResponseWriter, r *http.Request) { showAPI(w, r, routes, page) }},
	}
	routes = slices.Concat(routes, mine)
	var err error
	document, err = json.MarshalIndent(describe(routes), "", " ")
	if err != nil {
		panic(fmt.Sprintf("the description of the API: %v", err)) // it holds only texts
	}
	document = append(document, '\n')
	return mine
}

// An operable is an operation on the page.
type operable struct {
	Method, Path, Does, Role, Body string
	Fields                         []shownField
	May                            bool // whether the user may use it
	Form                           bool // whether a form can send it
}

type shownField struct {
	Name, What string
	Required   bool
}

func showAPI(w http.ResponseWriter, r *http.Request, routes []route, page pageTemplate) {
	words, say := operations(), textsOf(w).Say
	var all []operable
	for _, x := range routes {
		o := words[x.method+" "+x.path]
		t := operable{Method: x.method, Path: x.pathOf(), Does: say(cmp.Or(o.does, x.pathOf())), Role: x.role.String(), Body: o.body, May: userOf(r).Role >= least[x.role],
			Form: o.body == "" && !strings.Contains(x.pathOf(), "{") && !strings.HasPrefix(x.path, "/debug/") && !(x.method == "GET" && len(o.form) > 0)}
		for _, f := range append(slices.Clone(o.query), o.form...) {
			t.Fields = append(t.Fields, shownField{f.name, say(f.what), f.required})
		}
		all = append(all, t)
	}
	arrange.By(all, func(a, b operable) int { return strings.Compare(a.Path, b.Path) })
	writePage(w, page, http.StatusOK, all)
}
