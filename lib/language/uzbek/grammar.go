package uzbek

import (
	"strings"

	"shuultuur/lib/language/inflect"
)

// Grammar is the order of Uzbek endings, in Latin script with ' as the only apostrophe. Nouns
// take plural, possession, case, person. Verbs take voice, negation, tense and person, and
// many of their forms are nouns again.
var Grammar = inflect.Grammar{
	Letters: "abcdefghijklmnopqrstuvwxyz'-",
	Vowels:  "aeiou",
	Starts:  []string{"noun", "verb"},
	Slots: `
noun plural?: lar
plural owned?: m im ng ing i si miz imiz ngiz ingiz
owned case?: ni ning ga ka qa na a da ta dan tan dek day cha gacha kacha qacha niki
owned place: dagi tagi gacha
place plural?: lar
case place: gi
case person?: man san siz miz dir dirman mas emas sizlar
person particle?: mi ku chi da mikan u yu oq yoq yam ham -da -ku -chi -yu -u
particle end: dir man san siz miz sizlar
noun noun: roq li siz lik chi
noun plural?: lik
noun noun: inchi nchi ta lab ala tacha ov ovi gina kina qina
noun verb: la lan lash lashtir lat
verb verb: la lan lash lashtir lat in n il l ish sh tir dir t ir ar iz giz gaz kaz kiz qiz g'iz ver aver ol olma
verb negated?: ma
negated tense: may gan kan qan g'on a y yap ayap iyap moqda yotgan ayotgan ib b yib ar r s mas ydi adi digan adigan ydigan yotir yotib ayotib maqchi moqchi
negated past: di sa
negated made: moq ish sh uv v uvchi vchi guvchi gich gi ki qi
negated end: sin sinlar ay aylik y ylik ing inglar ng nglar gin kin qin gil gach kach qach gani kani qani guncha kuncha quncha gali
past particle?: m k ng ngiz lar ngizlar
tense tensed?: man san miz siz sizlar ti tilar di dilar dir dirlar lar
tense tense: edi ekan emas mish
tensed particle?: m k ng ngiz lar
tensed particle?: mi
tense made?:
made plural?: lar lik
`,
	Repairs: []inflect.Repair{
		{From: "g'", To: "q", Before: "i"}, {From: "g", To: "k", Before: "i"},
	},
	Changed: map[string]string{
		"shahr": "shahar", "o'g'l": "o'g'il", "burn": "burun", "bag'r": "bag'ir", "o'rn": "o'rin", "ko'ngl": "ko'ngil", "singl": "singil",
		"qorn": "qorin", "og'z": "og'iz", "bo'yn": "bo'yin", "egn": "egin", "yarm": "yarim", "nasb": "nasib", "zahr": "zahar", "umr": "umr", "ulg'": "ulug'", "sekn": "sekin", "ikkal": "ikkala", "og'l": "og'il",
	},
	Words: numerals(words),
	Stems: stems,
}

// words are pronouns and numerals whose stem changes.
var words = map[string]string{
	"unga": "u", "unda": "u", "undan": "u", "uni": "u", "uning": "u", "undagi": "u", "ular": "u", "ularni": "u", "ularning": "u", "ularga": "u", "ularda": "u", "ulardan": "u", "ularning-": "u",
	"bunga": "bu", "bunda": "bu", "bundan": "bu", "buni": "bu", "buning": "bu", "bular": "bu", "bularni": "bu", "bularning": "bu", "bularga": "bu", "bulardan": "bu",
	"shunga": "shu", "shunda": "shu", "shundan": "shu", "shuni": "shu", "shuning": "shu", "shular": "shu", "shularning": "shu",
	"o'shanga": "o'sha", "o'shanda": "o'sha", "o'shandan": "o'sha", "o'shani": "o'sha", "o'shaning": "o'sha",
	"meni": "men", "mening": "men", "menga": "men", "menda": "men", "mendan": "men", "menimcha": "men",
	"seni": "sen", "sening": "sen", "senga": "sen", "senda": "sen", "sendan": "sen",
	"bitta": "bir", "bittasi": "bir", "bittadan": "bir",
}

// numerals adds to words the numerals with endings for counting.
func numerals(words map[string]string) map[string]string {
	for n := range strings.FieldsSeq("bir ikki uch to'rt besh olti yetti sakkiz to'qqiz o'n yigirma o'ttiz qirq ellik oltmish yetmish sakson to'qson yuz ming") {
		order := "inchi"
		if endsInVowel(n) {
			order = "nchi"
		}
		for _, e := range []string{"ta", "tasi", "tadan", "tacha", "talab", "lab", order, order + "si", order + "dan", order + "lari"} {
			words[n+e] = n
		}
		if n != "bir" { // birov means somebody
			words[strings.TrimRight(n, "aiu")+"ov"], words[strings.TrimRight(n, "aiu")+"ovi"] = n, n
		}
	}
	return words
}

// Verbs are the commonest verbs; most are one syllable.
const Verbs = `
qil ol ber bor kel ket et ko'r tur yur chiq tush qol sol yot o't o'l ich ye de bil och yop tut kir yoz o'qi ishla o'yna kut
tik tort tashla bos ayt so'ra sev kul yig'la uxla uch ko'ch yet yetkaz qo'y top ko'rsat o'rgan o'rgat tugat boshla to'xta
chiqar ur es os kes tik quv sot sana yub yubor kiy yech yuv art sur qoch quch sanch ek or un yoq yon qot qur bo'l tuz buz ez
`

// stems are short or common stems: verbs, pronouns and numerals, and words that seem to end in
// an ending.
const stems = Verbs + `
men sen biz siz u bu shu o'sha o'z kim nima qaysi qayer qachon barcha hamma har hech
bir ikki uch to'rt besh olti yetti sakkiz to'qqiz o'n yigirma o'ttiz qirq ellik oltmish yetmish sakson to'qson yuz ming
oy kun yil soat hafta ish ism fikr qism shahar uy yo'l yosh bosh qo'l ko'z so'z til dil gul gap jon qon non tosh
dollar kilogramm gramm metr film tuman vatan zamon osmon inson imkon makon dushman poyezd ta'lim bilim tanish
olam odam bola ona ota aka uka opa singil er xotin qiz o'g'il
endi hozir bugun kecha ertaga juda ham va lekin ammo uchun bilan kabi hamda yoki agar chunki balki faqat
katta kichik yaxshi yomon yangi eski uzoq yaqin baland past qora oq qizil ko'k sariq yashil
edi ekan emas kerak mumkin lozim zarur bor yo'q
`
