package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
		"-at URL why https://a.example":         "",
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
