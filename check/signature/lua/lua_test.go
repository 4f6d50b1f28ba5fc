package lua

import (
	"testing"
	"time"

	"shuultuur/check/signature/engine"
	"shuultuur/check/signature/rule"
)

func match(t *testing.T, p *Pool, text string, h *engine.HTTP) bool {
	t.Helper()
	s, err := p.Load("a.lua", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tx := &engine.Tx{Flow: &engine.Flow{}, Source: h}
	return s.Match(tx, rule.ToServer, &rule.Rule{Rare: &rule.Rare{}}, nil, 0)
}

func TestScriptsAskForMessages(t *testing.T) {
	h := &engine.HTTP{}
	h.Sides[0] = engine.Side{Line: []byte("GET /a%41 HTTP/1.1"), Method: []byte("GET"), Target: []byte("/a%41"), At: rule.Complete,
		Headers: []engine.Header{{Name: []byte("Host"), Value: []byte("Example.com")}}}
	for name, text := range map[string]string{
		"library": `local http = require("suricata.http")
			function init() return {} end
			function match() local tx = http.get_tx(); local host = tx:request_header("host")
			if tx:request_uri_normalized() == "/aA" and host:lower() == "example.com" then return 1 end return 0 end`,
		"needs": `function init() local n = {}; n["http.request_line"] = tostring(true); return n end
			function match(args) if args["http.request_line"]:find("^GET ") then return 1 end return 0 end`,
		"older function": `function init() return {} end
			function match() if HttpGetRequestUriRaw() == "/a%41" then return 1 end return 0 end`,
		"digest": `local h = require("suricata.hashlib")
			function match() if h.md5_hexdigest("a") == "0cc175b9c0f1b6a831c399e269772661" then return 1 end return 0 end`,
	} {
		if p := NewPool(Limits{}); !match(t, p, text, h) {
			t.Errorf("%s: no match, %d errors", name, p.Errors.Load())
		}
	}
}

func TestScriptsEndInTime(t *testing.T) {
	for name, text := range map[string]string{
		"loop":           `function match() while true do end end`,
		"counting":       `function match() local n = 0; for i = 1, 300000 do n = n + 1 end return 1 end`,
		"pattern":        `function match() ("a"):rep(30000):find(".-.-.-b"); return 1 end`,
		"doubling":       `function match() local s = "a"; for i = 1, 40 do s = s .. s end return 1 end`,
		"repetition":     `function match() string.rep("a", 1e9); return 1 end`,
		"files":          `function match() io.open("/dev/null"); return 1 end`,
		"caught errors":  `function match() pcall(function() error("x") end); return 1 end`,
		"endless string": `function match() local t = {}; for i = 1, 1000 do t[i] = string.rep("x", 400) end; table.concat(t); return 1 end`,
		"depth":          `function match() return match() + 1 end`,
	} {
		start := time.Now()
		p := NewPool(Limits{})
		if match(t, p, text, &engine.HTTP{}) {
			t.Errorf("%s matched", name)
		}
		if p.Errors.Load() == 0 {
			t.Errorf("%s is not counted as an error", name)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}
