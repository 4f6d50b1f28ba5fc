package source

import "shuultuur/list"

// A CatalogueEntry is a well-known source. Its content is not part of the program: naming one
// fetches it, under its licence.
type CatalogueEntry struct {
	Name       string
	Title      string // as its keepers call it
	What       string
	Category   string // what a list of it is about, by the name that the starter settings use
	URL        string
	Sums       string // where checksums are
	Format     list.FormatName
	Licence    string
	Size       string // approximate, as fetched
	Home       string
	Entries    int      // about as many hosts and rules; 0: it depends on what is taken of it
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
		{Name: "stevenblack", Title: "StevenBlack hosts", What: "ads and malware, of several lists", URL: steven + "hosts", Format: list.Hosts, Licence: "MIT", Size: "3 MB", Category: "ads", Entries: 90_000, Home: "https://github.com/StevenBlack/hosts"},
		{Name: "stevenblack-gambling", Title: "StevenBlack hosts with gambling", What: "the same, with gambling", URL: steven + "alternates/gambling/hosts", Format: list.Hosts, Licence: "MIT", Size: "4 MB", Category: "gambling", Entries: 100_000, Home: "https://github.com/StevenBlack/hosts"},
		{Name: "stevenblack-porn", Title: "StevenBlack hosts with porn", What: "the same, with pornography", URL: steven + "alternates/porn/hosts", Format: list.Hosts, Licence: "MIT", Size: "6 MB", Category: "adult", Entries: 170_000, Home: "https://github.com/StevenBlack/hosts"},
		{Name: "hagezi-light", Title: "HaGeZi Light", What: "ads, tracking, malware: careful", URL: hagezi + "adblock/light.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "1 MB", Category: "ads", Entries: 60_000, Home: "https://github.com/hagezi/dns-blocklists"},
		{Name: "hagezi-normal", Title: "HaGeZi Normal", What: "ads, tracking, malware: all round", URL: hagezi + "adblock/multi.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "3 MB", Category: "ads", Entries: 150_000, Home: "https://github.com/hagezi/dns-blocklists"},
		{Name: "hagezi-pro", Title: "HaGeZi Pro", What: "ads, tracking, malware: more", URL: hagezi + "adblock/pro.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "4 MB", Category: "ads", Entries: 220_000, Home: "https://github.com/hagezi/dns-blocklists"},
		{Name: "hagezi-tif", Title: "HaGeZi Threat Intelligence Feeds", What: "malware, phishing, scams", URL: hagezi + "adblock/tif.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "15 MB", Category: "malware", Entries: 600_000, Home: "https://github.com/hagezi/dns-blocklists"},
		{Name: "oisd-small", Title: "oisd small", What: "ads mostly", URL: "https://small.oisd.nl/", Format: list.Adblock, Licence: "see homepage", Size: "1 MB", Category: "ads", Entries: 55_000, Home: "https://oisd.nl/"},
		{Name: "oisd-big", Title: "oisd big", What: "ads, tracking, malware", URL: "https://big.oisd.nl/", Format: list.Adblock, Licence: "see homepage", Size: "5 MB", Category: "ads", Entries: 250_000, Home: "https://oisd.nl/"},
		{Name: "oisd-nsfw", Title: "oisd nsfw", What: "pornography", URL: "https://nsfw.oisd.nl/", Format: list.Adblock, Licence: "see homepage", Size: "8 MB", Category: "adult", Entries: 400_000, Home: "https://oisd.nl/"},
		{Name: "easylist", Title: "EasyList", What: "ads, for ad blockers", URL: "https://easylist.to/easylist/easylist.txt", Format: list.Adblock, Licence: "GPL-3.0 or CC BY-SA 3.0", Size: "2 MB", Category: "ads", Entries: 60_000, Home: "https://easylist.to/"},
		{Name: "easyprivacy", Title: "EasyPrivacy", What: "tracking, for ad blockers", URL: "https://easylist.to/easylist/easyprivacy.txt", Format: list.Adblock, Licence: "GPL-3.0 or CC BY-SA 3.0", Size: "2 MB", Category: "tracking", Entries: 50_000, Home: "https://easylist.to/"},
		{Name: "adguard-dns", Title: "AdGuard DNS filter", What: "ads and tracking, by host", URL: "https://adguardteam.github.io/AdGuardSDNSFilter/Filters/filter.txt", Format: list.Adblock, Licence: "GPL-3.0", Size: "2 MB", Category: "ads", Entries: 140_000, Home: "https://github.com/AdguardTeam/AdGuardSDNSFilter"},
		{Name: "urlhaus", Title: "URLhaus", What: "hosts that currently serve malware", URL: "https://urlhaus.abuse.ch/downloads/hostfile/", Format: list.Hosts, Licence: "CC0-1.0", Size: "50 kB", Category: "malware", Entries: 2_000, Home: "https://urlhaus.abuse.ch/"},
		{Name: "peter-lowe", Title: "Peter Lowe's list", What: "ads and tracking, small", URL: "https://pgl.yoyo.org/adservers/serverlist.php?hostformat=hosts&showintro=0&mimetype=plaintext", Format: list.Hosts, Licence: "McRae GPL", Size: "100 kB", Category: "ads", Entries: 3_500, Home: "https://pgl.yoyo.org/adservers/"},
		{Name: "ut1", Title: "UT1 Toulouse", What: "the University of Toulouse's lists, all", URL: ut1 + "download/blacklists.tar.gz", Sums: ut1Sums, Format: list.UT1, Licence: "CC BY-SA 4.0", Size: "30 MB", Home: ut1, Categories: ut1Categories()},
	}
	const emerging = "https://rules.emergingthreats.net/open/suricata-7.0.3/emerging.rules.tar.gz"
	all = append(all, CatalogueEntry{Name: "et-open", Title: "ET Open", What: "signature rules: malware, phishing, exploits", URL: emerging, Sums: emerging + ".md5", Format: Rules, Licence: "BSD, GPL-2.0", Size: "5 MB", Home: "https://rules.emergingthreats.net/"})
	for _, c := range ut1Categories() {
		all = append(all, CatalogueEntry{Name: "ut1-" + c, Title: "UT1 " + c, Category: ut1Category(c), What: "of these lists, " + c, URL: ut1 + "download/" + c + ".tar.gz", Sums: ut1Sums, Format: list.UT1, Licence: "CC BY-SA 4.0", Size: ut1Size(c), Home: ut1, Categories: []string{c}})
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

// ut1Category returns the category of the starter settings that means the same.
func ut1Category(category string) string {
	switch category {
	case "publicite":
		return "ads"
	case "drogue", "dangerous_material":
		return "drugs"
	case "social_networks":
		return "social"
	case "audio-video":
		return "video"
	case "redirector", "strict_redirector", "strong_redirector", "vpn", "residential-proxies":
		return "proxies"
	case "mixed_adult":
		return "adult"
	case "cryptojacking":
		return "malware"
	}
	return category
}
