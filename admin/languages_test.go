package admin_test

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

func TestAPageIsInTheLanguageOfTheBrowser(t *testing.T) {
	s, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	server := admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} }, Shared: web.Shared{Texts: s.For}})
	for accept, want := range map[string][]string{
		"":                        {`<html lang="en"`, "<h1>The filter does not serve</h1>", "requests in the last hour"},
		"mn-MN,en;q=0.5":          {`<html lang="mn" dir="ltr">`, "<title>Нүүр · Shuultuur</title>", "сүүлийн цагийн хүсэлт", "Үйл ажиллагаа"},
		"uz":                      {`<html lang="uz-Latn"`, "Bosh sahifa", "oxirgi soatdagi soʻrovlar"},
		"uz-Cyrl":                 {`<html lang="uz-Cyrl"`, "Бош саҳифа"},
		"ar-EG,ar;q=0.9,en;q=0.5": {`<html lang="ar" dir="rtl"`, "<h1>المرشح لا يعمل</h1>", "الطلبات في الساعة الأخيرة", `aria-label="فاتح أو داكن: مثل النظام"`},
		"de-AT,de;q=0.9,en;q=0.5": {`<html lang="de"`, "Anfragen in der letzten Stunde", `aria-label="Hell oder dunkel: wie das System"`},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
		r.RemoteAddr = "127.0.0.1:999"
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Accept-Language", accept)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		for _, text := range want {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("Accept-Language %q: status %d, want %q in %s", accept, w.Code, text, w.Body)
			}
		}
	}
}
