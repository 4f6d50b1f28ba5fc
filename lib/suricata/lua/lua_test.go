package lua

import (
	"testing"
	"time"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/lib/suricata/traffic"
)

func match(t *testing.T, p *Pool, text string, source engine.Source) bool {
	t.Helper()
	s, err := p.Load("a.lua", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tx := &engine.Tx{Flow: &state.Flow{}, Source: source}
	return s.Match(tx, rule.ToServer, &rule.Rule{Rare: &rule.Rare{}}, nil, 0)
}

func TestScriptsAskForMessages(t *testing.T) {
	h := &traffic.HTTP{}
	h.Sides[0] = traffic.Side{Line: []byte("GET /a%41 HTTP/1.1"), Method: []byte("GET"), Target: []byte("/a%41"), At: rule.Complete,
		Headers: []traffic.Header{{Name: []byte("Host"), Value: []byte("Example.com")}}}
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
			t.Errorf("the script %s did not match; %d errors", name, p.Errors.Load())
		}
	}
}

// TestOlderScriptsCountOnAConnection has the flow integers of scripts before Suricata 8, which
// name them by their index in needs.
func TestOlderScriptsCountOnAConnection(t *testing.T) {
	s, err := NewPool(Limits{}).Load("a.lua", []byte(`function init() return {packet = tostring(true), flowint = {"cnt", "left"}} end
		function match()
			local n = ScFlowintGet(0)
			if n == nil then ScFlowintSet(0, 1); SCFlowintSet(1, 1); return 0 end
			ScFlowintIncr(0); ScFlowintDecr(1); SCFlowintDecr(1)
			if SCFlowintGet(0) == 3 and SCFlowintGet(1) == 0 then return 1 end
			return 0
		end`))
	if err != nil {
		t.Fatal(err)
	}
	tx := &engine.Tx{Flow: &state.Flow{}, Source: &traffic.HTTP{}}
	for i, want := range []bool{false, false, true, false} {
		if got := s.Match(tx, rule.ToServer, &rule.Rule{Rare: &rule.Rare{}}, nil, 0); got != want {
			t.Errorf("call %d matched: %v, want %v", i+1, got, want)
		}
	}
}

// TestOlderScriptsInspectTheSideTheyNeed: a script that needs the request would match again on
// the response.
func TestOlderScriptsInspectTheSideTheyNeed(t *testing.T) {
	for need, want := range map[string]rule.Direction{"http.request_line": rule.ToServer, "http.uri.raw": rule.ToServer, "http.response_body": rule.ToClient, "payload": rule.Both} {
		s, err := NewPool(Limits{}).Load("a.lua", []byte(`function init() return {["`+need+`"] = tostring(true)} end function match() return 1 end`))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Directions(); got != want {
			t.Errorf("a script that needs %s inspects side %v, want %v", need, got, want)
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
		"sorting":        `function match() local t = {}; for i = 1, 50000 do t[i] = i % 7 end; for i = 1, 1000 do table.sort(t) end return 1 end`,
		"inserting":      `function match() local t = {}; for i = 1, 60000 do t[i] = 1 end; for i = 1, 40000 do table.insert(t, 1, i) end return 1 end`,
		"removing":       `function match() local t = {}; for i = 1, 60000 do t[i] = 1 end; for i = 1, 40000 do table.remove(t, 1) end return 1 end`,
		"unpacking":      `function match() local t = {}; for i = 1, 50000 do t[i] = 1 end; for i = 1, 1000 do select("#", unpack(t)) end return 1 end`,
		"unpacking nil":  `function match() for i = 1, 1000 do select("#", unpack({}, 1, 50000)) end return 1 end`,
		"bytes":          `function match() local s = ("a"):rep(50000); for i = 1, 1000 do select("#", s:byte(1, -1)) end return 1 end`,
		"upper case":     `function match() local s = ("a"):rep(200000); for i = 1, 50000 do s:upper() end return 1 end`,
		"format":         `function match() local s = ("a"):rep(200000); for i = 1, 50000 do string.format("%s", s) end return 1 end`,
		"digests":        `local h = require("suricata.hashlib") function match() local s = ("a"):rep(200000); for i = 1, 50000 do h.sha256_digest(s) end return 1 end`,
		"long keys":      `function match() local s, t = ("a"):rep(400000), {}; for i = 1, 100000 do t[s] = i end return 1 end`,
		"lengths":        `function match() local t = {}; for i = 1, 60000 do t[i] = 1 end; for i = 60000, 1, -1 do t[i] = nil end; local n = 0; for i = 1, 50000 do n = n + #t end return 1 end`,
		"depth":          `function match() return match() + 1 end`,
	} {
		start := time.Now()
		p := NewPool(Limits{})
		if match(t, p, text, &traffic.HTTP{}) {
			t.Errorf("the script %s matched", name)
		}
		if p.Errors.Load() == 0 {
			t.Errorf("the failure of the script %s was not counted", name)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the script %s took %v, want at most 5 s", name, took)
		}
	}
}

// TestLibrariesWorkWithinTheirBudget calls functions whose work is charged, as scripts do.
func TestLibrariesWorkWithinTheirBudget(t *testing.T) {
	p := NewPool(Limits{})
	if !match(t, p, `function match()
		local t = {5, 3, 4}; table.sort(t); table.insert(t, 1, 2); table.insert(t, 9)
		local last = table.remove(t); local first = table.remove(t, 1)
		local a, b, c = unpack(t); local x, y = ("abc"):byte(-2, -1)
		local s = ("aBc"):upper() .. ("aBc"):lower() .. ("abc"):reverse() .. string.format("%d-%s", 7, "z")
		if last == 9 and first == 2 and a == 3 and b == 4 and c == 5 and x == 98 and y == 99 and s == "ABCabccba7-z" and #t == 3 and ("x"):byte() == 120 then return 1 end
		return 0 end`, &traffic.HTTP{}) {
		t.Errorf("the script did not match; %d errors", p.Errors.Load())
	}
}

// TestGlobalsOfAScriptDoNotGrowWithoutLimit calls a script that adds to a global variable.
func TestGlobalsOfAScriptDoNotGrowWithoutLimit(t *testing.T) {
	p := NewPool(Limits{Instructions: 5000})
	s, err := p.Load("a.lua", []byte(`kept = {} function match() for i = 1, 500 do kept[#kept + 1] = i end if #kept > 20000 then return 1 end return 0 end`))
	if err != nil {
		t.Fatal(err)
	}
	tx := &engine.Tx{Flow: &state.Flow{}, Source: &traffic.HTTP{}}
	for range 200 {
		if s.Match(tx, rule.ToServer, &rule.Rule{Rare: &rule.Rare{}}, nil, 0) {
			t.Fatal("the script kept 20,000 values")
		}
	}
	if p.Errors.Load() > 0 {
		t.Errorf("the script failed %d times", p.Errors.Load())
	}
}
