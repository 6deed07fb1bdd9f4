/** How texts are cut into words before byte-level BPE, by the name that GGUF's `tokenizer.ggml.pre` has for it. */
export interface PreTokenizer {
  /** Regular expressions; each cuts what the one before left, and both matches and what lies between are words. */
  readonly splits: readonly string[];
  /** Words that are tokens are taken whole, whatever the merges say. */
  readonly ignoreMerges?: boolean;
  /** Whether BOS starts a text where the metadata don't say. */
  readonly addBos?: boolean;
  /** Unicode normalisation before all else. */
  readonly nfc?: boolean;
}

// The splits are those of the models' own tokenizer.json; names as in https://github.com/ggml-org/llama.cpp, llama-vocab.

const GPT2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const REST = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const WORDS = String.raw`[^\r\n\p{L}\p{N}]?\p{L}+`;

const GPT_2: PreTokenizer = { splits: [GPT2] };
/** Every numeric character alone. */
const SINGLE_DIGITS: PreTokenizer = { splits: [String.raw`\p{N}`, GPT2] };
const LLAMA_3: PreTokenizer = {
  splits: [String.raw`${CONTRACTIONS}|${WORDS}|\p{N}{1,3}|${REST}`],
  ignoreMerges: true,
  addBos: true,
};
const QWEN_2: PreTokenizer = { splits: [String.raw`${CONTRACTIONS}|${WORDS}|\p{N}|${REST}`], nfc: true };
/** As Llama 3 cuts, without its other habits (OLMo 2, Phi-4). */
const CL100K: PreTokenizer = { splits: LLAMA_3.splits };
/** Words of capitals, then of small letters; marks belong to them. `end` is what may follow a word. */
const caseWords = (end: string) => {
  const upper = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
  const lower = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
  const before = String.raw`[^\r\n\p{L}\p{N}]?`;
  return `${before}${upper}*${lower}+${end}|${before}${upper}+${lower}*${end}`;
};
const SLASHES = String.raw` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
/** Phi-4-mini. */
const O200K: PreTokenizer = { splits: [String.raw`${caseWords(`${CONTRACTIONS}?`)}|\p{N}{1,3}|${SLASHES}`] };
/** Mistral Nemo and later. */
const TEKKEN: PreTokenizer = {
  splits: [String.raw`${caseWords('')}|\p{N}|${SLASHES}`],
  ignoreMerges: true,
  addBos: true,
};
const DEFAULT: PreTokenizer = {
  splits: [String.raw`[\p{P}\$\+<=>\^~\|]+`, GPT2, String.raw`\p{N}+`, '[0-9][0-9][0-9]'],
};

export const PRE_TOKENIZERS: Readonly<Record<string, PreTokenizer>> = {
  default: DEFAULT,
  'gpt-2': GPT_2,
  smollm: SINGLE_DIGITS,
  starcoder: SINGLE_DIGITS,
  'llama-bpe': LLAMA_3,
  // The first files' names for it, and models with its tokenizer's habits.
  ...{ llama3: LLAMA_3, 'llama-v3': LLAMA_3, falcon3: LLAMA_3, pixtral: LLAMA_3 },
  // SmolLM3.
  'smaug-bpe': CL100K,
  ...{ qwen2: QWEN_2, megrez: QWEN_2, 'deepseek-r1-qwen': { splits: QWEN_2.splits } },
  'phi-2': GPT_2,
  olmo: GPT_2,
  refact: SINGLE_DIGITS,
  dbrx: CL100K,
  'gpt-4o': O200K,
  tekken: TEKKEN,
};
