//go:build small

package admin

import (
	"shuultuur/text"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

// The small build lacks these pages.

func profileRoutes() []route { return nil }

func reportRoutes(*Parts) []route { return nil }

func alertRoutes(*Parts) []route { return nil }

func assistantRoutes(*Parts) []route { return nil }

// The API is the same as in the full build, but does not describe itself.
func apiRoutes([]route, noticeFunc) []route { return nil }

func alertFuncs(*text.Texts) template.FuncMap { return nil }

func (*Parts) zoneRoutes() []route { return nil }
