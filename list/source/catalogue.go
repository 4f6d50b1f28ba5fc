package source

import "shuultuur/list"

// A CatalogueEntry is a well-known source. Its content is not part of the program: naming one
// fetches it, under its licence.
type CatalogueEntry struct {
	Name       string
	What       string
	URL        string
	Sums       string // where checksums are
	Format     list.FormatName
	Licence    string
	Size       string // approximate, as fetched
	Home       string
	Categories []string // if the source has its own
}

// Rules is the format of signature rules in the language of Suricata, which are not a list.
const Rules list.FormatName = "suricata"

const (
	ut1     = "https://dsi.ut-capitole.fr/blacklists/"
	ut1Sums = ut1 + "download/MD5SUM.LST"
	hagezi  = "https://raw.githubusercontent.com/hagezi/dns-blocklists/main/"
	steven  = "https://raw.githubusercontent.com/StevenBlack/hosts/master/"
)

// Catalogue returns the sources that a list can name, by kind. Addresses, licences and sizes
// are as of the time of writing.
func Catalogue() []CatalogueEntry {
	all := []CatalogueEntry{
		{Name: "stevenblack", What: "ads and malware, of several lists", URL: steven + "hosts", Format: list.Hosts, Licence: "MIT", Size: "3 MB", Home: "https://github.com/StevenBlack/hosts"},
		{Name: "stevenblack-gambling", What: "the same, with gambling", URL: steven + "alternates/gambling/hosts", Format: list.Hosts, Licence: "MIT", Size: "4 MB", Home: "https://github.com/StevenBlack/hosts"},
		{Name: "stevenblack-porn", What: "the same, with pornography", URL: steven + "alternates/porn/hosts", Format: list.Hosts, Licence: "MIT", Size: "6 MB", Home: "https://github.com/StevenBlack/hosts"},
		{Name: "hagezi-light", What: "ads, tracking, malware: careful", URL: hagezi + "adblock/light.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "1 MB", Home: "https://github.com/hagezi/dns-blocklists"},
		{Name: "hagezi-normal", What: "ads, tracking, malware: all round", URL: hagezi + "adblock/multi.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "3 MB", Home: "https://github.com/hagezi/dns-blocklists"},
		{Name: "hagezi-pro", What: "ads, tracking, malware: more", URL: hagezi + "adblock/pro.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "4 MB", Home: "https://github.com/hagezi/dns-blocklists"},
		{Name: "hagezi-tif", What: "malware, phishing, scams", URL: hagezi + "adblock/tif.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "15 MB", Home: "https://github.com/hagezi/dns-blocklists"},
		{Name: "oisd-small", What: "ads mostly", URL: "https://small.oisd.nl/", Format: list.Adblock, Licence: "see homepage", Size: "1 MB", Home: "https://oisd.nl/"},
		{Name: "oisd-big", What: "ads, tracking, malware", URL: "https://big.oisd.nl/", Format: list.Adblock, Licence: "see homepage", Size: "5 MB", Home: "https://oisd.nl/"},
		{Name: "oisd-nsfw", What: "pornography", URL: "https://nsfw.oisd.nl/", Format: list.Adblock, Licence: "see homepage", Size: "8 MB", Home: "https://oisd.nl/"},
		{Name: "easylist", What: "ads, for ad blockers", URL: "https://easylist.to/easylist/easylist.txt", Format: list.Adblock, Licence: "GPL-3.0 or CC BY-SA 3.0", Size: "2 MB", Home: "https://easylist.to/"},
		{Name: "easyprivacy", What: "tracking, for ad blockers", URL: "https://easylist.to/easylist/easyprivacy.txt", Format: list.Adblock, Licence: "GPL-3.0 or CC BY-SA 3.0", Size: "2 MB", Home: "https://easylist.to/"},
		{Name: "adguard-dns", What: "ads and tracking, by host", URL: "https://adguardteam.github.io/AdGuardSDNSFilter/Filters/filter.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "2 MB", Home: "https://github.com/AdguardTeam/AdGuardSDNSFilter"},
		{Name: "urlhaus", What: "hosts that currently serve malware", URL: "https://urlhaus.abuse.ch/downloads/hostfile/", Format: list.Hosts, Licence: "CC0-1.0", Size: "50 kB", Home: "https://urlhaus.abuse.ch/"},
		{Name: "peter-lowe", What: "ads and tracking, small", URL: "https://pgl.yoyo.org/adservers/serverlist.php?hostformat=hosts&showintro=0&mimetype=plaintext", Format: list.Hosts, Licence: "McRae GPL", Size: "100 kB", Home: "https://pgl.yoyo.org/adservers/"},
		{Name: "ut1", What: "the University of Toulouse's lists, all", URL: ut1 + "download/blacklists.tar.gz", Sums: ut1Sums, Format: list.UT1, Licence: "CC BY-SA 4.0", Size: "30 MB", Home: ut1, Categories: ut1Categories()},
	}
	const emerging = "https://rules.emergingthreats.net/open/suricata-7.0.3/emerging.rules.tar.gz"
	all = append(all, CatalogueEntry{Name: "et-open", What: "signature rules: malware, phishing, exploits", URL: emerging, Sums: emerging + ".md5", Format: Rules, Licence: "BSD, GPL-2.0", Size: "5 MB", Home: "https://rules.emergingthreats.net/"})
	for _, c := range ut1Categories() {
		all = append(all, CatalogueEntry{Name: "ut1-" + c, What: "of these lists, " + c, URL: ut1 + "download/" + c + ".tar.gz", Sums: ut1Sums, Format: list.UT1, Licence: "CC BY-SA 4.0", Size: ut1Size(c), Home: ut1, Categories: []string{c}})
	}
	return all
}

func ut1Categories() []string {
	return []string{
		"adult", "agressif", "ai", "arjel", "associations_religieuses", "astrology", "audio-video", "bank", "bitcoin",
		"blog", "celebrity", "chat", "child", "cleaning", "cooking", "cryptojacking", "dangerous_material", "dating",
		"ddos", "dialer", "doh", "download", "drogue", "dynamic-dns", "educational_games", "examen_pix",
		"exceptions_liste_bu", "fakenews", "filehosting", "financial", "forums", "gambling", "games", "hacking",
		"jobsearch", "lingerie", "liste_blanche", "liste_bu", "malware", "manga", "marketingware", "mixed_adult",
		"mobile-phone", "phishing", "press", "publicite", "radio", "reaffected", "redirector", "remote-control",
		"residential-proxies", "sect", "sexual_education", "shopping", "shortener", "social_networks", "special",
		"sports", "stalkerware", "strict_redirector", "strong_redirector", "translation", "tricheur", "tricheur_pix",
		"update", "vpn", "warez", "webhosting", "webmail",
	}
}

func ut1Size(category string) string {
	switch category {
	case "adult":
		return "20 MB"
	case "malware", "phishing", "publicite", "redirector":
		return "1 MB"
	}
	return "100 kB"
}
