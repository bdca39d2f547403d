package reads

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Duration is encoded as seconds, rounded to milliseconds; a negative one as 0.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(max(0, time.Duration(d).Seconds())*1000)/1000, 'f', -1, 64), nil
}

// maxSeconds is far longer than any time that is read.
const maxSeconds = math.MaxInt32

// UnmarshalJSON takes what is out of range for the nearest Duration: a client does not trust that an answer is in range.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var seconds float64
	err := json.Unmarshal(text, &seconds)
	*d = Duration(math.Round(max(0, min(seconds, maxSeconds)) * float64(time.Second)))
	return err
}
