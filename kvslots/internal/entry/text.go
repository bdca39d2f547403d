package entry

import (
	"unicode"
	"unicode/utf8"
)

// MaxText is the longest text for people (label, title, reason), in characters.
const MaxText = 64

// maxMarks is how many combining marks may follow each other: more of them cover other lines.
const maxMarks = 3

// IsText reports whether people can read a text: at most MaxText printable characters.
func IsText(text string) bool {
	marks := 0
	for _, c := range text {
		if !unicode.IsPrint(c) || IsHidden(c) || c == '\u2800' { // a letter of braille without dots
			return false
		}
		if marks++; !unicode.In(c, unicode.Mn, unicode.Me) {
			marks = 0
		}
		if marks > maxMarks {
			return false
		}
	}
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= MaxText
}

// IsHidden reports whether people do not see a character: control characters, those of no width,
// and those that change the direction of text.
func IsHidden(c rune) bool {
	return unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
