package mongolian

import "shuultuur/content/language/inflect"

// Grammar is the order of endings of Khalkha Mongolian in Cyrillic script.
// Vowels of endings follow those of the stem, so most endings have four forms.
var Grammar = inflect.Grammar{
	Letters: "абвгдеёжзийклмноөпрстуүфхцчшщъыьэюя-",
	Vowels:  "аэиоуөүыяеёю",
	Starts:  []string{"noun", "verb"},
	Slots: `
noun plural?: ууд үүд нууд нүүд чууд чүүд нар нэр
plural case?: ийг ыг г йг гийг ын ийн ны ний н ы ий йн гийн гын
plural case?: д т ад эд од өд анд энд онд өнд нд инд ид
plural case?: аас ээс оос өөс ас эс ос өс наас нээс ноос нөөс гаас гээс гоос гөөс иас иос
plural case?: аар ээр оор өөр ар эр ор өр наар нээр ноор нөөр гаар гээр гоор гөөр иар иор
plural case?: тай тэй той руу рүү луу лүү нийг ныг ины
case own?: аа ээ оо өө а э о ө гаа гээ гоо гөө наа нээ ноо нөө иа ио
case plural: х хи
own end: гүй ч уу үү юу юү вэ бэ
verb verb: уул үүл гд лц лд гдэ гда аат ээт оот
verb tense: сан сэн сон сөн лаа лээ лоо лөө жээ чээ жай чай в ав эв ов өв
verb tense: на нэ но нө ана энэ оно өнө ина даг дэг дог дөг адаг эдэг одог өдөг идаг
verb noun: х ах эх ох өх их гч агч эгч огч өгч лт алт элт олт өлт
verb tense: ж ч аад ээд оод өөд ад эд од өд агүй эгүй огүй өгүй иад н ан эн он өн саар сээр соор сөөр тал тэл тол төл вал вэл вол вөл бал бэл бол бөл магц мэгц могц мөгц хаар хээр хоор хөөр хлаар хлээр нгаа нгээ нгоо нгөө
verb end: аарай ээрэй оорой өөрэй аач ээч ооч өөч я ъя ье ё ёо г аг эг ог өг гтун гтүн аасай ээсэй
verb tense: аа ээ оо өө гаа гээ гоо гөө
tense plural?:
tense end: гүй уу үү юу юү шүү даа дээ
`,
	Repairs: []inflect.Repair{
		{From: "и", To: "ь"}, {To: "ь", Before: "и"},
		{To: "ин", Before: "н"}, {To: "ан", Before: "н"}, {To: "эн", Before: "н"}, {To: "он", Before: "н"}, {To: "өн", Before: "н"},
		{To: "а", Before: "ыи"}, {To: "о", Before: "ыи"}, {To: "э", Before: "и"}, {To: "ө", Before: "и"},
		{To: "н", Before: "нгд"}, {From: "н", To: ""},
	},
	Inserts: "аэоөи",
	Stems:   Verbs,
}

// Verbs are common verbs.
const Verbs = `
яв ир өг ав бай бол хий гар ор суу бос унт ид уу хар сонс асуу хариул бич унш сур заа мэд ойлго бод сана март үз ол алд хай
гүй зогс ажилла тогло дуул бүжиглэ инээ уйл хайрла цохи ал зод худалд зар төл хэрэглэ хэл ярь барь тавь хүр гэ чад хүс эхэл
дуус нээ хаа цэвэрлэ угаа өмс тайл идэвхж өс төр үх тусл хамгаал дагуул явуул оруул гарга
`
