// The 16 entries of a separator by size, largest first, against p: a line an entry, a letter for each of 40 p with
// equal steps of log(p - 1) from 1.05 to 20. A letter is the entry over the largest one in 25ths, "0" none and "I"
// all. The first problem of the chapter lp-separator, seed 0, solved by the library, which
// tests/explore/test_snippets.py does again.
export const STEPS = 40;
export const WHOLE = 25;
export const ENTRIES = [
  "IIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII",
  "GGGFFFFFEDEEEEEEFFGGGHHHHHHHIIIIIIIIIIII",
  "CDDDDDDDDDCBA@@???@@@AABBCDEEFFFGGGGHHHH",
  "BBBBBAAAA@@@??????>?@@AABCCDDEFFGGGGHHHH",
  "7888889999::::;<==>>>?@ABBCDDEEFFGGGHHHH",
  "5444445566789:;;;;<=>>?@ABCCDEEFFGGGHHHH",
  "21111122234556799;;<=>?@ABCCDEEFFFGGGGHH",
  "00000111233456789:;<=>>>?@@ABBCDEEFFGGGG",
  "00000011233455679:;<<=>>>>??@ABCDDEEFFGG",
  "00000011223455678:;;;;<<=>>??@ABCDEEFFGG",
  "0000001122344567899::;<<==>>?@ABCDEEEFFG",
  "000000011223456677899:;<===>?@ABBCDEEFFF",
  "000000000111122334567789:;<=>?@ABCDDEFFF",
  "0000000000011123345567889:<=>?@ABCCDDDDE",
  "0000000000011123345566777::;<=>?@@AABBBC",
  "000000000000000001100135788762158:<>@ABB",
];
