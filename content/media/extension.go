package media

// typesOf maps an extension to media types: those detected from the first bytes, and those that servers
// declare.
var typesOf = map[string][]string{
	"exe":     {"application/vnd.microsoft.portable-executable", "application/x-msdownload", "application/x-msdos-program", "application/x-dosexec", "application/x-winexe", "application/exe"},
	"msi":     {"application/x-msi", "application/x-ms-installer"},
	"apk":     {"application/vnd.android.package-archive"},
	"jar":     {"application/java-archive", "application/x-java-archive"},
	"swf":     {"application/x-shockwave-flash"},
	"deb":     {"application/vnd.debian.binary-package", "application/x-debian-package"},
	"rpm":     {"application/x-rpm"},
	"dmg":     {"application/x-apple-diskimage"},
	"iso":     {"application/x-iso9660-image"},
	"zip":     {"application/zip", "application/x-zip-compressed", "application/x-zip"},
	"tar":     {"application/x-tar", "application/tar"},
	"gz":      {"application/gzip", "application/x-gzip"},
	"7z":      {"application/x-7z-compressed"},
	"rar":     {"application/x-rar-compressed", "application/vnd.rar", "application/x-rar"},
	"pdf":     {"application/pdf", "application/x-pdf"},
	"mp3":     {"audio/mpeg", "audio/mp3"},
	"wav":     {"audio/wav", "audio/x-wav", "audio/wave"},
	"mp4":     {"video/mp4"},
	"webm":    {"video/webm"},
	"avi":     {"video/x-msvideo", "video/avi"},
	"flv":     {"video/x-flv"},
	"mpg":     {"video/mpeg"},
	"mpeg":    {"video/mpeg"},
	"mov":     {"video/quicktime"},
	"wmv":     {"video/x-ms-wmv"},
	"torrent": {"application/x-bittorrent"},
}

// TypesOf returns the media types of files with an extension, nil if it is not known.
func TypesOf(extension string) []string { return typesOf[extension] }
