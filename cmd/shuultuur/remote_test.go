package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/event/eventtest"
	"shuultuur/event/jsonl"
)

func TestAGatewayElsewhereIsAsked(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked = append(asked, fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, r.PostForm.Encode(), r.Header.Get("Authorization")))
		if r.URL.Path == "/pause" {
			fmt.Fprint(w, "[]")
		} else {
			fmt.Fprint(w, "{}")
		}
	}))
	defer s.Close()
	t.Setenv(tokenVariable, "the token")
	for line, want := range map[string]string{
		"-at URL pause 5m class-7a":             "POST /pause for=5m&who=class-7a Bearer the token",
		"-at=URL pause":                         "GET /pause  Bearer the token",
		"-at URL resume":                        "POST /pause for=0s&who= Bearer the token",
		"-at URL cache purge host a.example":    "POST /cache/purge kind=host&value=a.example Bearer the token",
		"-at URL check https://a.example":       "",
		"-at URL events copy a b":               "",
		"-at URL events -top host":              "",
		"-at URL why -dns a.example":            "",
		"-at URL":                               "",
		"-at":                                   "",
		"-at http://filter.example:8081 resume": "",
		"-at https://a:b@filter.example resume": "",
		"-at nonsense resume":                   "",
	} {
		asked = nil
		var out, failed strings.Builder
		status := dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &failed}, strings.Fields(strings.ReplaceAll(line, "URL", s.URL)))
		if got := strings.Join(asked, "; "); got != want || (status == 0) != (want != "") || (failed.Len() == 0) != (want != "") {
			t.Errorf("%s: asked %q, want %q; %d %s", line, got, want, status, failed.String())
		}
	}
}

func TestTheRecordElsewhereIsAskedPageByPage(t *testing.T) {
	rows := eventtest.Rows(time.Now().UTC().Truncate(time.Microsecond), 5)
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String()+" "+r.Header.Get("Authorization"))
		page := rows[2:]
		if r.URL.Query().Has("before") {
			page = rows[:2]
		} else {
			w.Header().Set("Link", `</events?before=7&filter=action%3Ablock&last=>; rel="next"`)
		}
		for i := range page {
			_, _ = w.Write(jsonl.AppendLine(nil, &page[len(page)-1-i]))
		}
	}))
	defer s.Close()
	t.Setenv(tokenVariable, "the token")
	first := "/events?filter=action%3Ablock Bearer the token"
	for flags, want := range map[string]struct {
		rows  int
		asked []string
	}{
		"-n 3": {3, []string{first}},
		"-n 0": {5, []string{first, "/events?before=7&filter=action%3Ablock&last= Bearer the token"}},
	} {
		asked = nil
		var out, failed strings.Builder
		line := append(strings.Fields("-at "+s.URL+" events -json "+flags), "action:block")
		if status := dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &failed}, line); status != 0 {
			t.Errorf("%s: %d %s", flags, status, failed.String())
		}
		lines := ""
		for i := range want.rows {
			lines += string(jsonl.AppendLine(nil, &rows[4-i]))
		}
		if out.String() != lines || !slices.Equal(asked, want.asked) {
			t.Errorf("%s: asked %q, want %q; printed %s", flags, asked, want.asked, out.String())
		}
	}
}

func TestWhyElsewhereSaysWhatTheGatewaySays(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Path + " " + r.URL.Query().Get("url") + " " + r.URL.Query().Get("client") + " " + r.URL.Query().Get("groups"); got != "/why https://a.example/?x=1 10.1.2.3 class-7a" {
			http.Error(w, "asked "+got, http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"url":"https://a.example/?x=1","action":"block","policy":"pupils","rule":"games","findings":[]}`)
	}))
	defer s.Close()
	var out, failed strings.Builder
	status := dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &failed}, strings.Fields("-at "+s.URL+" why -client 10.1.2.3 -groups class-7a https://a.example/?x=1"))
	if status != 1 || !strings.Contains(out.String(), "BLOCK  https://a.example/?x=1") || !strings.Contains(out.String(), "games") {
		t.Errorf("%d %s%s", status, out.String(), failed.String())
	}
}

func TestAGatewayElsewhereThatLacksAPartIsNamed(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	var out, failed strings.Builder
	dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &failed}, []string{"-at", s.URL, "cache", "purge", "host", "a.example"})
	if want := "the gateway at " + s.URL + " has no cache"; !strings.Contains(failed.String(), want) {
		t.Errorf("%q does not say %q", failed.String(), want)
	}
}
