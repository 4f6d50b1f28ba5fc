package wrapped

import "strings"

// A service shows other pages under hosts of its own, in whose first label the other host is
// written with dashes for dots, and two dashes for one.
var services = [...]string{".translate.goog", ".cdn.ampproject.org", ".bing-amp.com", ".turbopages.org"}

// IsTranslator reports whether a host belongs to a service that shows other pages to read, so that
// what a page of it asks for belongs to that other page.
func IsTranslator(host string) bool {
	for _, s := range services {
		if strings.HasSuffix(host, s) {
			return true
		}
	}
	for _, s := range [...]string{"translate.", "webcache.", "translator.", "web.archive.org", "archive.", "papago.", "translated."} {
		if strings.HasPrefix(host, s) {
			return true
		}
	}
	return strings.Contains(host, "translat") && (strings.Contains(host, "bing") || strings.Contains(host, "microsoft") || strings.Contains(host, "yandex"))
}

// Host searches a host, in whose first labels another host may be written.
func (f *Finder) Host(host string) {
	f.begin(host)
	f.inHost(host)
}

func (f *Finder) inHost(host string) {
	first := strings.IndexByte(host, '.')
	if first <= 0 || first == strings.LastIndexByte(host, '.') {
		return // there is no room for another host
	}
	for _, s := range services {
		if inner, ok := strings.CutSuffix(host, s); ok {
			f.dashed(inner[strings.LastIndexByte(inner, '.')+1:], true)
			return
		}
	}
	if first >= shortCode && strings.Trim(host[:first], "0123456789abcdef") == "" {
		f.label([]byte(host[:first]), layer{})
	}
	if strings.IndexByte(host[:first], '-') > 0 && registered(host) != host { // a site's own name may be "shop-net"
		f.dashed(host[:first], false)
	}
	for end := strings.LastIndexByte(host, '.'); end > first; {
		end = strings.LastIndexByte(host[:end], '.')
		if end > first && f.topBefore(host, end) && isWhole(host[:end]) {
			if site := registered(host); end < len(host)-len(site) && f.isName([]byte(host[:end]), false) {
				f.add([]byte(host[:end]), nil, layer{way: "before another host"})
				return
			}
		}
	}
}

// isWhole reports whether labels look like the whole name of a site, as few that are not have:
// they begin with "www", or end like most sites.
func isWhole(inner string) bool {
	if strings.HasPrefix(inner, "www.") {
		return true
	}
	for _, end := range [...]string{".com", ".net", ".org"} {
		if strings.HasSuffix(inner, end) {
			return true
		}
	}
	i := strings.LastIndexByte(inner, '.')
	return strings.HasSuffix(inner[:max(i, 0)], ".co") || strings.HasSuffix(inner[:max(i, 0)], ".com")
}

// topBefore reports whether the label that ends at a dot is a top-level domain, and not the first.
func (f *Finder) topBefore(host string, end int) bool {
	if end <= 0 {
		return false
	}
	at := strings.LastIndexByte(host[:end], '.') + 1
	if at == 0 || end-at > 24 {
		return false
	}
	top, _ := f.isTop([]byte(host[at:end]))
	return top
}

// dashed examines a label in which dashes stand for dots. Unless it is one of a known service, it
// must look like the whole name of a site, because many labels have dashes.
func (f *Finder) dashed(label string, known bool) {
	i := strings.LastIndexByte(label, '-')
	if i <= 0 {
		return
	}
	if top, _ := f.isTop([]byte(label[i+1:])); !top {
		return
	}
	inner := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(label, "--", "\x00"), "-", "."), "\x00", "-")
	if known || isWhole(inner) && (strings.HasPrefix(inner, "www.") || registered(inner) == inner) {
		f.add([]byte(inner), nil, layer{way: "with dashes for dots"})
	}
}
