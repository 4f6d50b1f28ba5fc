package e2guardian

import (
	"strings"
	"testing"
)

// TestReasonsAreFoundByWholeWordsOfOptions: the words of e2guardian's options are written
// together, so that one may seem to be in another.
func TestReasonsAreFoundByWholeWordsOfOptions(t *testing.T) {
	for name, want := range map[string]string{
		"set_accesslog": "the record", "maxlogitemlength": "the record", "nologger": "the record", "dstatlocation": "the record", "loguseragent": "the record",
		"proxyfailureloginterval": "the record", "sslcertcheck": "certificates", "onlymitmsslgrey": "certificates", "opensslconffile": "certificates",
		"allowemptyhostcert": "certificates", "daemonuser": "the service manager", "nodaemon": "the service manager", "ipipcfilename": "the service manager",
		"regexpuseragentlist": "there is no", "filtergroup": "there is no", "defaulttransparentfiltergroup": "one port", "mapportstoips": "one port", "mapauthtoports": "users",
		"reportinglevel": "block pages", "usecustombannedflash": "block pages", "sslaccessdeniedaddress": "block pages", "bannedrooms": "there is no", "htmltemplate": "block pages",
		"bannedsearchtermlist": "search terms", "searchtermlimit": "search terms", "preauthstoryboard": "storyboards", "forcequicksearch": "the phrase search",
		"reverseclientiplookups": "names are judged", "pcontimeout": "limits", "connectretries": "limits", "minsparechildren": "limits", "thresholdbyuser": "no mail",
		"usesmtp": "no mail", "enablepics": "PICS", "scancleancache": "bodies", "disablecontentscan": "bodies", "infectionbypass": "bodies", "bypasskey": "a ban",
		"naughtynesslimit": "there is no", "perroomdirectory": "there is no", "prefercachedlists": "there is no",
	} {
		if got := whyNot(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
