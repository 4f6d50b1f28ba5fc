package match

import (
	"encoding/binary"
	"strings"
)

// rarest returns the position of the pair of runs that is rarest in web traffic, among even or
// odd positions. The position before a short pattern counts as odd.
func rarest(p []byte, parity int) int {
	at := parity
	best := frequency(p, at)
	for i := parity; i+pair <= len(p) && i < 1<<15; i += 2 {
		if sum := frequency(p, i); sum < best {
			best, at = sum, i
		}
	}
	if parity == 1 && len(p) <= shortPattern && frequency(p, -1) < best {
		at = -1
	}
	return at
}

// shortPattern is the length up to which a pattern may have the byte before it in a run. Any
// byte is possible there, which fills the table.
const shortPattern = 7

// frequency returns how common the pair of runs at position i of a pattern is in web traffic;
// less is better.
func frequency(p []byte, i int) (sum int) {
	for _, at := range [2]int{i, i + 2} {
		for k := at; k < at+Gram; k++ {
			if k < 0 || k >= len(p) {
				sum += anyByte
			} else {
				sum += common(p[k])
			}
		}
		if at >= 0 && at+Gram <= len(p) {
			if _, ok := frequent[binary.LittleEndian.Uint32(p[at:])|0x20202020]; ok {
				sum += 100
			}
		}
	}
	return sum
}

// anyByte is the value of [common] for an unknown byte.
const anyByte = 20

// Rareness estimates how rare a pattern is in pages, in bits: each more halves the number of
// positions.
func Rareness(p []byte) (bits int) {
	for i, c := range p {
		if i >= Gram-1 {
			if _, ok := frequent[binary.LittleEndian.Uint32(p[i-Gram+1:])|0x20202020]; ok {
				bits++ // as expected
				continue
			}
		}
		bits += max(1, 16-common(lower[c]))
	}
	return bits
}

// Everyday reports whether a pattern consists of text that is common in pages.
func Everyday(p []byte) bool {
	for i := 0; i+Gram <= len(p); i++ {
		if _, ok := frequent[binary.LittleEndian.Uint32(p[i:])|0x20202020]; !ok {
			return false
		}
	}
	return true
}

// frequent are the runs of four bytes in words that are common in pages, scripts and heads.
var frequent = func() map[uint32]struct{} {
	set := map[uint32]struct{}{}
	for w := range strings.FieldsSeq(frequentWords) {
		for _, text := range []string{w, " " + w, w + " ", w + "=\"", "." + w, w + "("} {
			for i := 0; i+Gram <= len(text); i++ {
				set[binary.LittleEndian.Uint32([]byte(text[i:]))|0x20202020] = struct{}{}
			}
		}
	}
	for phrase := range strings.Lines(frequentPhrases) {
		for i := 0; i+Gram < len(phrase); i++ { // without the line break
			set[binary.LittleEndian.Uint32([]byte(phrase[i:]))|0x20202020] = struct{}{}
		}
	}
	for _, text := range []string{"\r\n\r\n", " HTTP/1.1\r\nHost: www.", "\r\nContent-Type: ", "\r\nAccept: */*\r\nAccept-", "\r\nConnection: Keep-Alive\r\n", "\r\nCookie: ", "\x00\x00\x00\x00", "\r\n\r\n<!DOCTYPE html",
		"    \n    \n\t\t\t", ">\n    <", ">\n\n", ">\r\n  ", ";\n  ", "{\n  ", "p>\n  ", "e\">\n  ", "\\u002F\\u002f\\u0022"} {
		for i := 0; i+Gram <= len(text); i++ {
			set[binary.LittleEndian.Uint32([]byte(text[i:]))|0x20202020] = struct{}{}
		}
	}
	return set
}()

// frequentPhrases are common texts of pages and scripts, one per line.
const frequentPhrases = `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>
</title></head><body></body></html>
<div class="</div></div><div id="
<a href="https://www.</a></li><li><a href="/
<a class="<span class="</span></a><p class="</p>
href="#" href="../" href="css/style.css" rel="stylesheet" type="text/css">
src="js/" src="img/" src="images/" src="https://" alt="" width="100%" height="1
<input type="text" name="value=" type="hidden" name="id" placeholder="
<form action="" method="post" name="form" id="form"><button type="submit" class="btn
<table border="0" cellpadding="0" cellspacing="0"><tr><td></td></tr></table>
<img src="<br><br/><br /><h1></h1><h2></h2><center></center><strong></strong>
<script src="<script type="text/javascript"></script><script>
<style type="text/css">style="display:none;" style="color:#
document.getElementById("document.write(document.createElement("window.location=
.innerHTML=.value=.length;.replace(/.push(.split(".indexOf(".substring(0,
function(){function(e){return this.};return};if(!else{for(var i=0;i<
=="undefined"&&typeof ===null||=function(=window.=document.var a=var b=new Array(new Date(
":"",":{" ":[{" "},{" ":true,":false,":null,"id":"name":"type":"value":"url":"http
&nbsp;&nbsp; &amp; &quot; &lt; &gt; &copy; 
http://www. https://www. .com/ .com" .org/ .net/ .php? .html" .js" .css" ?id= &id=
eval("atob("<html>"form"</form>
<!-- --><!--[if lt IE 9]><![endif]--><!-- / -->\u0022\u002F\u003C\u003E":[],"
`

const frequentWords = `<html <head <body <title <meta <link <script </script> <style </style> <div </div> <span </span> <table <form <input
	<img <a </a> <p> </p> <li> </li> <br> <option <button href= src= class= style= name= value= type= content= width= height= id= rel=
	text/css text/html text/javascript application/json image/png stylesheet http:// https:// www. .com .html .php .js .css .png .jpg
	function return document window getElementById getElementsByTagName createElement appendChild addEventListener innerHTML location
	var let const this new null true false undefined prototype length replace indexOf substring split join push parseInt Math String
	Array Object Date typeof else while break case switch default throw catch event target element node attribute import export module
	color background border margin padding display none block inline position absolute relative center left right top bottom font family
	size weight important solid hidden overflow float clear cursor pointer white black url data item list user page site home search news
	contact about login account password email phone address city state country date time number index result error message status code
	text title description image video audio media file load ready click submit select option label button table column header footer
	author auth icon mobile view property blog follow google mark facebook book info collect download upload open sign confirm small
	compare community comment track article vertical light drop yahoo iframe print play apple device service box well quality online
	window.location scroll article mailto twitter youtube instagram share feed post tag category archive default theme module widget
	plugin wp-content assets static cdn ajax json api version build config setting update create delete remove append before after
	account customer product price cart shop order payment bank security privacy policy terms cookie consent read more 2015 2016 2017
	2018 2019 2020 2021 2022 2023 2024 2025 -----  "name": "url": "type": "id": ": {" ": " \u00 \u0 'type', 'name', display: none; center; block;
	main menu item with that this from have will your more about they were been which their would there could other than then these
	Content-Type Content-Length Accept-Encoding User-Agent Mozilla Windows Connection keep-alive Cookie Referer Host Server Date Cache
	charset= utf-8 HTTP/1.1 GET POST wrapper configure configuration require callback dropbox browser redirect provide internal external
	format information checkbox desktop register office official amazon support language microsoft credit request tracking hacker
	explain template primary embed creative current client response program jquery symbol linkedin success escape global bucket
	placeholder billing warning working survey execute industries complete develop continue protect secure verify http-equiv opener
	applet .class aHR0cDov script> ://www. ://secure window.location position:absolute display:none`

// common returns how frequent a byte is in pages: the logarithm, from 0, of its occurrences in
// a million bytes.
func common(c byte) int {
	switch {
	case c >= ' ' && c < 0x7f:
		return int(printable[c-' '] - 'a')
	case c == '\n':
		return 10
	case c == '\r' || c == '\t' || c == 0:
		return 6
	}
	return 2
}

// printable has the values of [common] for ASCII characters, from the space on: 'a' stands for
// 0.
const printable = "pgmgfiihiifgkllklkkjjjjjjjkjkkkfeiiiiiihhihgiiiihhiijhhhhhhhjhdjamkllmkklmijllmmlimmmlkkjkiifie"

// Strength is Suricata's measure of a pattern: rare bytes count more, repeated ones hardly.
func Strength(p []byte) int {
	var seen [256]bool
	s := 0
	for _, c := range p {
		switch {
		case seen[c]:
			s++
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			s += 3
		case c > ' ' && c < 0x7f || c == 0 || c == 1 || c == 0xff:
			s += 4
		default:
			s += 6
		}
		seen[c] = true
	}
	return s
}
