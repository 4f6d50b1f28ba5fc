package page

import (
	"strings"

	"shuultuur/lib/message"
)

// A Resource is a harmless replacement for something that an ad blocker's rule blocks with
// $redirect, so that pages waiting for a script or picture continue.
type Resource struct{ Type, Body string }

// StandIn returns the replacement for a name used by uBlock Origin, AdGuard or Adblock Plus.
// Names of replacements for particular scripts are unknown here: the client then gets the
// block page. One without content has the type that the request's use needs.
func StandIn(name string, q *message.Request) (Resource, bool) {
	name = strings.TrimPrefix(name, "abp-resource:")
	name, _, _ = strings.Cut(name, ":") // a priority, which selects among several
	switch name {
	case "noopjs", "noop.js", "blank-js":
		return Resource{"text/javascript; charset=utf-8", "(function(){})();\n"}, true
	case "noopcss", "noop.css", "blank-css":
		return Resource{"text/css; charset=utf-8", ""}, true
	case "noopframe", "noop.html", "noophtml", "blank-html":
		return Resource{"text/html; charset=utf-8", "<!DOCTYPE html><title></title>\n"}, true
	case "nooptext", "noop.txt", "blank-text", "empty", "none":
		return blankFor(q), true
	case "noopjson", "noop.json":
		return Resource{"application/json", "{}\n"}, true
	case "noop-vast2", "noopvast-2.0", "noop-vmap1", "noopvmap-1.0", "noopvast-3.0", "noop-vast3", "noop-vast4", "noopvast-4.0":
		return Resource{"text/xml; charset=utf-8", emptyVAST(name)}, true
	case "1x1.gif", "1x1-transparent.gif", "1x1-transparent-gif", "2x2.png", "2x2-transparent.png", "2x2-transparent-png",
		"3x2.png", "3x2-transparent.png", "3x2-transparent-png", "32x32.png", "32x32-transparent.png", "32x32-transparent-png":
		return Resource{"image/gif", pixel}, true
	}
	return Resource{}, false
}

// blankFor returns a replacement without content.
func blankFor(q *message.Request) Resource {
	switch FormOf(q) {
	case Document, Frame:
		return Resource{"text/html; charset=utf-8", ""}
	case Picture:
		return Resource{"image/gif", pixel}
	case Script:
		return Resource{"text/javascript; charset=utf-8", ""}
	case Sheet:
		return Resource{"text/css; charset=utf-8", ""}
	}
	return Resource{"text/plain; charset=utf-8", ""}
}

// emptyVAST returns an empty response of a video ad server.
func emptyVAST(name string) string {
	switch {
	case strings.Contains(name, "vmap"):
		return `<vmap:VMAP xmlns:vmap="http://www.iab.net/videosuite/vmap" version="1.0"></vmap:VMAP>` + "\n"
	case strings.Contains(name, "3"):
		return `<VAST version="3.0"></VAST>` + "\n"
	case strings.Contains(name, "4"):
		return `<VAST version="4.0"></VAST>` + "\n"
	}
	return `<VAST version="2.0"></VAST>` + "\n"
}
