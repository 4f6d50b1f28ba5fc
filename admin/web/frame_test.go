package web_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

func asPage(r *http.Request) { r.Header.Set("Accept", "text/html") }

// matches returns the first group of each match.
func matches(pattern, text string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestTheMenuHasWhatARoleMaySee(t *testing.T) {
	h := admintest.NewHouse(t)
	for role, want := range map[account.Role]struct{ groups, items string }{
		account.Viewer:   {"Today Filter Gateway", "Home Activity Rules Lists Network System"},
		account.Helper:   {"Today Filter Gateway", "Home Inbox Activity People Rules Lists Network System"},
		account.Lead:     {"Today Filter Gateway", "Home Inbox Activity People Rules Lists Network System"},
		account.Operator: {"Today Filter Gateway", "Home Inbox Activity People Rules Lists Network System"},
		account.Owner:    {"Today Filter Gateway", "Home Inbox Activity People Rules Lists Network System"},
	} {
		page := h.Ask(role, "GET", "/", "", asPage).Body.String()
		_, menu, _ := strings.Cut(page, `<nav class="menu-main"`)
		menu, _, _ = strings.Cut(menu, "</nav>")
		if got := strings.Join(matches(`<div class="label">([^<]+)<`, menu), " "); got != want.groups {
			t.Errorf("the menu of the role %v has the groups %q, want %q", role, got, want.groups)
		}
		if got := strings.Join(matches(`</svg>([^<]+)<`, menu), " "); got != want.items {
			t.Errorf("the menu of the role %v has %q, want %q", role, got, want.items)
		}
		// Everything that has a link is a tab of an item.
		reached := matches(`<a href="([^"]+)"`, menu)
		for _, item := range slices.Clone(reached) {
			page := h.Ask(role, "GET", item, "", asPage).Body.String()
			_, tabs, _ := strings.Cut(page, `<nav class="tabs"`)
			tabs, _, _ = strings.Cut(tabs, "</nav>")
			reached = append(reached, matches(`<a href="([^"]+)"`, tabs)...)
		}
		for _, r := range admintest.Table(h.Parts) {
			path := strings.TrimSuffix(r.Path, "{$}")
			if r.Link != nil && path != "/account" && h.Ask(role, "GET", path, "", asPage).Code == 200 && !slices.Contains(reached, path) {
				t.Errorf("the role %v may see %s, and no item or tab of the menu leads there", role, path)
			}
		}
	}
}

func TestPagesHaveNoStyleNoScriptAndOnlyIconsThatThereAre(t *testing.T) {
	icons, err := os.ReadFile("static/icons.svg")
	if err != nil {
		t.Fatal(err)
	}
	there := matches(`<symbol id="([^"]+)"`, string(icons))
	files, err := filepath.Glob("../*/*.html")
	if err != nil || len(files) < 30 {
		t.Fatalf("found the pages %q, %v", files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range regexp.MustCompile(`\bstyle=|\bon[a-z]+="|<style|<script>|javascript:`).FindAllString(string(b), -1) {
			t.Errorf("%s has %s: styles and scripts are files", file, bad)
		}
		for _, name := range matches(`icon "([a-z0-9.]+)"`, string(b)) {
			name, _, _ = strings.Cut(name, ".")
			if !slices.Contains(there, name) {
				t.Errorf("%s shows the icon %q, which icons.svg lacks", file, name)
			}
		}
	}
	h := admintest.NewHouse(t)
	n := 0
	for _, r := range admintest.Table(h.Parts) {
		if r.Method != "GET" || slow(r) {
			continue
		}
		for _, name := range matches(`icons\.svg#([^"]*)"`, h.Ask(account.Owner, "GET", admintest.Target(r), "", asPage).Body.String()) {
			if n++; !slices.Contains(there, name) {
				t.Errorf("%s shows the icon %q, which icons.svg lacks", r.Path, name)
			}
		}
	}
	if n < 300 {
		t.Errorf("the pages have only %d icons", n)
	}
}

func TestThemeAndLanguageAreKept(t *testing.T) {
	h := admintest.NewHouse(t)
	kept := ""
	for _, c := range []struct{ form, cookie, to string }{
		{"theme=dark&to=/events%3Flast=1h", "dark.", "/events?last=1h"},
		{"lang=mn&to=/more", "dark.mn", "/more"},
		{"theme=system", ".mn", "/"},
		{"lang=browser&to=//evil.example", ".", "/"},
		{"theme=%22%3E&lang=../x", ".", "/"},
	} {
		w := h.Ask(account.Viewer, "POST", "/view", c.form, asPage, func(r *http.Request) {
			if kept != "" {
				r.AddCookie(&http.Cookie{Name: "shuultuur-view", Value: kept})
			}
		})
		for _, cookie := range w.Result().Cookies() {
			kept = cookie.Value
		}
		if w.Code != 303 || w.Header().Get("Location") != c.to || kept != c.cookie {
			t.Errorf("%s: status %d to %q, keeps %q, want %q and %q", c.form, w.Code, w.Header().Get("Location"), kept, c.to, c.cookie)
		}
	}
	for cookie, want := range map[string]bool{"dark.": true, "light.de": false, "red.": false} {
		page := h.Ask(account.Viewer, "GET", "/", "", asPage, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "shuultuur-view", Value: cookie}) }).Body.String()
		if got := strings.HasPrefix(page, "<!DOCTYPE html>\n<html data-theme=\"dark\" "); got != want {
			t.Errorf("with the cookie %q the page is dark: %v, want %v", cookie, got, want)
		}
	}
}
