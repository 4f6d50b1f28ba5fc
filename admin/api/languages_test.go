package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/text"
)

func TestTheAPIIsDescribedInTheLanguageOfTheBrowser(t *testing.T) {
	s, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	server := admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} }, Shared: web.Shared{Texts: s.For, Token: "secret"}})
	ask := func(path, accept, language string) string {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:999"
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Language", language)
		r.Header.Set("Authorization", "Bearer secret")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w.Body.String()
	}
	for language, want := range map[string][]string{
		"en":      {"state and problems", "how long to look, in seconds"},
		"mn":      {"төлөв, асуудлууд", "хэдий хугацаанд ажиглах, секундээр"},
		"uz-Cyrl": {"ҳолат ва муаммолар"},
		"fr":      {"état et problèmes"},
		"ar":      {"الحالة والمشكلات", "مدة النظر، بالثواني"},
	} {
		page := ask("/api", "text/html", language)
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page lacks %q", language, text)
			}
		}
		if document := ask("/openapi.json", "application/json", language); !strings.Contains(document, "state and problems") {
			t.Errorf("%s: the document for programs is not in English", language)
		}
	}
}
