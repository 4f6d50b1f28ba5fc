//go:build !small

package icap

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// vendorPage is a page as scanners send it instead of an infected file.
const vendorPage = "Encapsulated: res-hdr=0, res-body=52\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\n\r\n\r\n" +
	"7\r\na page.\r\n0\r\n\r\n"

// TestVendorsAnswers lists answers of scanners: what one names in its head counts, whatever else
// the answer has.
func TestVendorsAnswers(t *testing.T) {
	page := strings.Replace(vendorPage, "text/html\r\n\r\n\r\n", "text/html\r\n\r\n", 1)
	page = strings.Replace(page, "res-body=52", fmt.Sprintf("res-body=%d", len("HTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\n\r\n")), 1)
	const (
		ok      = "ICAP/1.0 200 OK\r\n"
		none    = "ICAP/1.0 204 No Content\r\n"
		created = "ICAP/1.0 201 Created\r\n"
		null    = "Encapsulated: null-body=0\r\n\r\n"
		found   = "X-Infection-Found: Type=0; Resolution=2; Threat=Eicar-Test;\r\n"
	)
	for name, tt := range map[string]struct{ answer, want string }{
		// Infected, as vendors say it.
		"c-icap virus_scan":             {ok + "ISTag: \"CI0001\"\r\nX-Infection-Found: Type=0; Resolution=2; Threat=Eicar-Test;\r\nX-Violations-Found: 1\r\n\t-\r\n\tEicar-Test\r\n\t0\r\n\t0\r\n" + page, "virus Eicar-Test"},
		"squidclamav, redirect":         {ok + "X-Virus-ID: Eicar-Test\r\nX-Infection-Found: Type=0; Resolution=2; Threat=Eicar-Test;\r\n" + strings.Replace(page, "403", "307", 1), "virus Eicar-Test"},
		"ClamAV by squidclamav, stream": {ok + "X-Infection-Found: Type=0; Resolution=2; Threat=stream: Win.Test.EICAR_HDB-1;\r\n" + page, "virus stream: Win.Test.EICAR_HDB-1"},
		"Kaspersky":                     {ok + "X-Virus-ID: EICAR-Test-File\r\nX-Response-Info: blocked\r\n" + page, "virus EICAR-Test-File"},
		"Kaspersky, not a virus":        {ok + "X-Virus-ID: not-a-virus:HEUR:AdWare.Win32.Agent\r\n" + page, "virus not-a-virus:HEUR:AdWare.Win32.Agent"},
		"Symantec, created":             {created + "X-Violations-Found: 1\r\n\tfile.exe\r\n\tEICAR Test String\r\n\t11101\r\n\t2\r\nX-Infection-Found: Type=0; Resolution=2; Threat=EICAR Test String;\r\n" + page, "virus EICAR Test String"},
		"Symantec, violations alone":    {created + "X-Violations-Found: 1\r\n\tfile.exe\r\n\tEICAR Test String\r\n\t11101\r\n\t2\r\n" + page, "violation EICAR Test String in file.exe"},
		"Symantec, a failure":           {"ICAP/1.0 500 Server error\r\n" + found + "\r\n", "virus Eicar-Test"},
		"McAfee":                        {ok + "X-Media-Type: text/plain\r\nX-Block-Reason: Malware found\r\nX-Block-Result: 80\r\nX-Virus-Name: EICAR test file\r\n" + page, "virus EICAR test file"},
		"Skyhigh, a reason alone":       {ok + "X-Block-Reason: Malware found\r\nX-Block-Result: 80\r\n" + page, "virus Malware found"},
		"Sophos":                        {ok + "X-Infection-Found: Type=0; Resolution=2; Threat=EICAR-AV-Test\r\n" + page, "virus EICAR-AV-Test"},
		"Sophos, several":               {ok + "X-Infection-Found: Type=0; Resolution=2; Threat=Troj/DocDl-OYC;\r\nX-Virus-ID: Troj/DocDl-OYC\r\n" + page, "virus Troj/DocDl-OYC"},
		"ESET":                          {ok + "X-Infection-Found: Type=0; Resolution=0; Threat=VBA/TrojanDownloader.Agent.JOA;\r\nX-Response-Info: Blocked\r\nX-Response-Desc: infected\r\n" + page, "virus VBA/TrojanDownloader.Agent.JOA"},
		"ESET, words alone":             {ok + "X-Response-Desc: Infected: Eicar test file\r\n" + page, "virus Infected: Eicar test file"},
		"Dr.Web":                        {ok + "X-Infection-Found: Type=0; Resolution=1; Threat=EICAR Test File (NOT a Virus!);\r\n" + page, "virus EICAR Test File (NOT a Virus!)"},
		"F-Secure":                      {ok + "X-FSecure-Scan-Result: infected\r\nX-FSecure-Infection-Name: \"Malware.W97M/Agent\"\r\n" + page, "virus \"Malware.W97M/Agent\""},
		"F-Secure, the result alone":    {none + "X-FSecure-Scan-Result: infected\r\n" + null, "virus infected"},
		"Trend Micro":                   {ok + "X-Virus-ID: Eicar_test_file\r\nX-Infection-Found: Type=0; Resolution=2; Threat=Eicar_test_file;\r\n" + page, "virus Eicar_test_file"},
		"MetaDefender":                  {ok + "X-Response-Info: Blocked\r\nX-Response-Desc: Infected\r\nX-Blocked-Reason: Infected\r\n" + page, "virus Infected"},
		"MetaDefender, its threat":      {ok + "X-Blocked-Reason: Infected\r\nX-Infection-Found: Type=0; Resolution=0; Threat=EICAR;\r\n" + page, "virus EICAR"},
		"Fortinet":                      {ok + "X-Virus-Name: EICAR_TEST_FILE\r\n" + page, "virus EICAR_TEST_FILE"},
		"Fortinet, while it thinks":     {"ICAP/1.0 202 Accepted\r\nX-Virus-Name: EICAR_TEST_FILE\r\n\r\n", "virus EICAR_TEST_FILE"},
		"Check Point":                   {ok + "X-Infection-Found: Type=0; Resolution=2; Threat=Trojan.Win32.EICAR;\r\nX-Virus-ID: Trojan.Win32.EICAR\r\n" + page, "virus Trojan.Win32.EICAR"},
		// Infected, in odd answers.
		"without Encapsulated":           {ok + found + "\r\n", "virus Eicar-Test"},
		"with a body it does not say":    {ok + found + "\r\nHTTP/1.1 403 Forbidden\r\n\r\n", "virus Eicar-Test"},
		"null-body":                      {ok + found + null, "virus Eicar-Test"},
		"unmodified":                     {none + found + null, "virus Eicar-Test"},
		"parts in another order":         {ok + found + "Encapsulated: res-body=40, res-hdr=0\r\n\r\n", "virus Eicar-Test"},
		"parts with nonsense":            {ok + found + "Encapsulated: what\r\n\r\n", "virus Eicar-Test"},
		"the field after Encapsulated":   {ok + "Encapsulated: null-body=0\r\n" + found + "\r\n", "virus Eicar-Test"},
		"a page without an end":          {ok + found + strings.Split(page, "a page.")[0], "virus Eicar-Test"},
		"a page with a wrong chunk":      {ok + found + strings.Replace(page, "7\r\na", "zz\r\na", 1), "virus Eicar-Test"},
		"an HTTP head that is none":      {ok + found + strings.Replace(page, "HTTP/1.1 403", "nonsense 403", 1), "virus Eicar-Test"},
		"ended after the head":           {ok + found + "Connection: close\r\n" + strings.SplitAfter(page, "\r\n\r\n")[0], "virus Eicar-Test"},
		"ended in the head":              {ok + found + "Connection: close\r\n", "virus Eicar-Test"},
		"lines that end with LF":         {strings.ReplaceAll(ok+found, "\r\n", "\n") + "\n", "virus Eicar-Test"},
		"a field without a colon before": {ok + "nonsense\r\n" + found + "\r\n", "virus Eicar-Test"},
		"a blank before the colon":       {ok + "X-Virus-ID : Eicar-Test\r\n\r\n", "virus Eicar-Test"},
		"another case":                   {ok + "x-VIRUS-id: Eicar-Test\r\n\r\n", "virus Eicar-Test"},
		"another protocol":               {"HTTP/1.1 403 Forbidden\r\n" + found + "\r\n", "virus Eicar-Test"},
		"continue":                       {"ICAP/1.0 100 Continue\r\n" + found + "\r\n", "virus Eicar-Test"},
		"not found":                      {"ICAP/1.0 404 Not Found\r\n" + found + "\r\n", "virus Eicar-Test"},
		"no threats, then one":           {ok + "X-Infection-Found: 0\r\nX-Virus-ID: Eicar-Test\r\n\r\n", "virus Eicar-Test"},
		"without a name":                 {ok + "X-Infection-Found: Type=0; Resolution=2; Threat=;\r\n\r\n", "virus Type=0; Resolution=2; Threat=;"},
		// Not scanned, or against a policy.
		"Symantec, an encrypted container": {created + "X-Infection-Found: Type=2; Resolution=2; Threat=Encrypted container violation;\r\n" + page, "unread not scanned: Encrypted container violation"},
		"Symantec, a size violation":       {created + "X-Infection-Found: Type=2; Resolution=2; Threat=Maximum Extract Size exceeded;\r\n" + page, "unread not scanned: Maximum Extract Size exceeded"},
		"Symantec, a mail policy":          {created + "X-Infection-Found: Type=1; Resolution=2; Threat=Blocked subject;\r\n" + page, "violation Blocked subject"},
		"Symantec, a type":                 {"ICAP/1.0 500 Server error\r\nX-Error-Code: file_type_blocked\r\n\r\n", "violation file_type_blocked"},
		"Symantec, a password":             {"ICAP/1.0 500 Server error\r\nX-Error-Code: password_protected\r\n\r\n", "unread not scanned: password_protected"},
		"a container and an infection":     {ok + "X-Infection-Found: Type=2; Resolution=2; Threat=Encrypted container;\r\nX-Virus-ID: Eicar-Test\r\n" + page, "virus Eicar-Test"},
		"an infection in a container":      {ok + "X-Infection-Found: Type=2; Threat=Encrypted container;\r\nX-Infection-Found: Type=0; Threat=Eicar-Test;\r\n" + page, "virus Eicar-Test"},
		"ClamAV, its limits":               {ok + "X-Infection-Found: Type=0; Resolution=2; Threat=Heuristics.Limits.Exceeded.MaxFileSize;\r\n" + page, "unread not scanned: Heuristics.Limits.Exceeded.MaxFileSize"},
		"ClamAV, encrypted":                {ok + "X-Virus-ID: stream: Heuristics.Encrypted.Zip\r\n" + page, "unread not scanned: stream: Heuristics.Encrypted.Zip"},
		"ClamAV, encrypted, as violation":  {ok + "X-Violations-Found: 1\r\n\ta.zip\r\n\tHeuristics.Encrypted.Zip\r\n\t0\r\n\t0\r\n" + page, "unread not scanned: Heuristics.Encrypted.Zip in a.zip"},
		"a virus that encrypts":            {ok + "X-Virus-ID: Trojan.Encrypted.Agent\r\n" + page, "virus Trojan.Encrypted.Agent"},
		"a heuristic":                      {ok + "X-Virus-ID: Heuristics.Broken.Executable\r\n" + page, "virus Heuristics.Broken.Executable"},
		// Clean.
		"Kaspersky, clean":    {none + "X-Virus-ID: no threats\r\n" + null, ""},
		"Kaspersky, twice":    {none + "X-Virus-ID: no threats\r\nX-Virus-ID: no threats\r\n" + null, ""},
		"clean, in words":     {none + "X-Virus-ID: No virus found.\r\nX-Infection-Found: none\r\nX-Virus-Name: -\r\n" + null, ""},
		"clean, in numbers":   {none + "X-Infection-Found: 0\r\nX-Violations-Found: 0\r\n" + null, ""},
		"clean, without":      {none + "X-Virus-ID:\r\nX-Infection-Found:\r\n" + null, ""},
		"MetaDefender, clean": {none + "X-Response-Info: Allowed\r\nX-Response-Desc: No threat detected\r\n" + null, ""},
		"F-Secure, clean":     {none + "X-FSecure-Scan-Result: clean\r\n" + null, ""},
		"McAfee, clean":       {none + "X-Block-Result: 0\r\nX-Virus-Name: None\r\n" + null, ""},
		"ESET, clean":         {none + "X-Response-Info: Passed\r\nX-Response-Desc: clean, scanned for viruses\r\n" + null, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, options := range []string{"", "Preview: 4\r\n"} {
				s := scan(t, "", "Methods: RESPMOD\r\n"+options, func(string, string, string) string { return tt.answer })
				for _, whose := range []string{"own", "scanner"} {
					for _, pieces := range []int{1, 3} {
						c := check(t, Config{Servers: setting.OneOrMore[string]{s.url()}, Page: whose, Timeout: setting.Duration(20 * time.Second)})
						start := time.Now()
						got, err := find(t.Context(), c, filter.ResponseBody, pieces, "some text")
						first := ""
						if len(got) > 0 {
							first = got[0].Category + " " + got[0].Evidence
						}
						if want := tt.want + ", says"; err != nil || tt.want == "" && first != "" || tt.want != "" && !strings.HasPrefix(first, want) {
							t.Errorf("page %s, %d pieces, options %q: got %q, %v; want %q", whose, pieces, options, first, err, tt.want)
						}
						if took := time.Since(start); took > 10*time.Second {
							t.Errorf("the verdict took %v", took)
						}
					}
				}
			}
		})
	}
}
