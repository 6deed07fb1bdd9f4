/** How often each loop runs, and which conditions hold (0: not), by name. */
export type TemplateCounts = Readonly<Record<string, number>>;

/**
 * Expands the loops and conditions of a shader, so that one source serves a family of kernels whose sums stay in
 * registers, which WGSL's own arrays don't promise:
 *
 *     #for r ROWS       repeats its lines ROWS times (a name or a number), with $r in them 0, 1, 2 …
 *     #if NAME          keeps its lines where counts[NAME] is not 0
 *     #end              ends either
 *
 * Throws where a line names what `counts` hasn't, or a block has no end.
 */
export function expandTemplate(code: string, counts: TemplateCounts): string {
  // Loading asks for the same few kernels layer after layer.
  const key = `${JSON.stringify(counts)}\n${code}`;
  const known = expansions.get(key);
  if (known !== undefined) return known;
  const expanded = expand(code, counts);
  expansions.set(key, expanded);
  return expanded;
}

const expansions = new Map<string, string>();

function expand(code: string, counts: TemplateCounts): string {
  const lines = code.split('\n');
  const [expanded, end] = expandBlock(lines, 0, counts);
  if (end < lines.length) throw new Error(`template: line ${end + 1} ends what nothing began`);
  return expanded.join('\n');
}

/** The lines from `from` to the block's end, and where that end is. */
function expandBlock(lines: readonly string[], from: number, counts: TemplateCounts): [string[], number] {
  const result: string[] = [];
  let at = from;
  for (; at < lines.length; at++) {
    const line = lines[at]!;
    const [, word, first, second] = /^\s*#(for|if|end)\b\s*(\w*)\s*(\w*)/.exec(line) ?? [];
    if (word === undefined) result.push(line);
    else if (word === 'end') return [result, at];
    else {
      const name = word === 'for' ? second! : first!;
      const count = /^\d+$/.test(name) ? Number(name) : counts[name];
      if (count === undefined) throw new Error(`template: line ${at + 1} names ${name}, which has no count`);
      const [block, end] = expandBlock(lines, at + 1, counts);
      if (end === lines.length) throw new Error(`template: the block of line ${at + 1} has no end`);
      if (word === 'if') result.push(...(count === 0 ? [] : block));
      else for (let i = 0; i < count; i++) result.push(...block.map((inner) => substitute(inner, first!, i)));
      at = end;
    }
  }
  return [result, at];
}

function substitute(line: string, variable: string, value: number): string {
  if (!line.includes('$')) return line;
  return line.replace(new RegExp(`\\$${variable}(?=u\\b|[^a-z]|$)`, 'g'), String(value));
}
