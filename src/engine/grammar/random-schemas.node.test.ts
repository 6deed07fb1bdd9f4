import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import { readTokenBytes } from '../../checkpoint/token-bytes.ts';
import { nodeGrammarWorkers } from '../../testing/grammar-worker.node.ts';
import { GrammarError } from '../grammars.ts';
import type { Constraint } from '../request.ts';
import { GrammarPool } from './grammar-pool.ts';
import { grammarVocabulary } from './grammar-vocabulary.ts';
import { judge } from './testing/judge.ts';
import { randomWalk } from './testing/random-walk.ts';

const EOS = 2;
const tokens = readTokenBytes(await readFile('models/stories260K/tokenizer.json', 'utf8'), 'tokenizer.json');
const pool = new GrammarPool(grammarVocabulary(tokens, 512, [EOS]), await nodeGrammarWorkers());
afterAll(() => pool.destroy());

const name = fc.constantFrom('a', 'b', 'ab', 'é', '"', '\\n', '1', 'a/b', 'constructor');
const small = fc.integer({ min: 0, max: 4 });
const bound = fc.oneof(
  fc.integer({ min: -30, max: 300 }),
  fc.integer({ min: -200, max: 200 }).map((n) => n / 8),
);
const some = (model: Record<string, fc.Arbitrary<unknown>>) => fc.record(model, { requiredKeys: [] });
const value: fc.Arbitrary<unknown> = fc.oneof(
  name,
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.constant([1, {}]),
);

const { schema } = fc.letrec((tie) => {
  const of = tie('schema');
  const several = fc.array(of, { minLength: 1, maxLength: 3 });
  return {
    schema: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.oneof(
        fc.constantFrom(
          true,
          {},
          { type: 'boolean' },
          { type: 'null' },
          { type: ['integer', 'null'] },
          { $ref: '#/$defs/d' },
        ),
        fc.record({ enum: fc.array(value, { minLength: 1, maxLength: 4 }) }),
        fc.record({ const: value }),
        some({ minimum: bound, maximum: bound, exclusiveMinimum: bound, exclusiveMaximum: bound }).chain((bounds) =>
          fc.constantFrom('integer', 'number').map((type) => ({ type, ...bounds })),
        ),
        fc
          .record({ minimum: bound, maximum: bound, multipleOf: fc.constantFrom(1, 2, 7, 0.5, 0.1, 1e-3) })
          .chain((bounds) => fc.constantFrom('integer', 'number').map((type) => ({ type, ...bounds }))),
        some({ minLength: small, maxLength: fc.integer({ min: 3, max: 40 }) }).map((of) => ({ type: 'string', ...of })),
        fc
          .constantFrom('^a+$', '[^"]', '.', '\\S{2}', '[é-ü]?"', '(x|\\\\)*', '\\d{2,20}')
          .map((pattern) => ({ type: 'string', pattern })),
      ),
      some({
        properties: fc.dictionary(name, of, { maxKeys: 4 }),
        required: fc.uniqueArray(name, { maxLength: 3 }),
        additionalProperties: fc.oneof(fc.boolean(), of),
        minProperties: fc.integer({ min: 0, max: 2 }),
        maxProperties: small,
      }).map((of) => ({ type: 'object', ...of })),
      some({ items: of, prefixItems: several, minItems: small, maxItems: small }).map((of) => ({
        type: 'array',
        ...of,
      })),
      fc.constantFrom('anyOf', 'oneOf', 'allOf').chain((key) => several.map((all) => ({ [key]: all }))),
      fc.tuple(several, fc.dictionary(name, of, { maxKeys: 2 })).map(([anyOf, properties]) => ({ anyOf, properties })),
    ),
  };
});

it('random schemas are refused, or every finished output is right', { timeout: 900_000 }, async () => {
  let [served, refused, finished] = [0, 0, 0];
  const property = fc.asyncProperty(
    schema,
    schema,
    fc.infiniteStream(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })),
    async (root, d, random) => {
      const whole = typeof root === 'object' ? { ...root, $defs: { d } } : root;
      const constraint: Constraint = { kind: 'json_schema', text: JSON.stringify(whole) };
      const matcher = await pool.open(constraint, []).catch((error: GrammarError) => error);
      if (matcher instanceof GrammarError) {
        expect(matcher.message).toMatch(/^json_schema is refused: /);
        refused++;
        return;
      }
      served++;
      const output = await randomWalk(matcher, tokens, 512, EOS, () => random.next().value!);
      matcher.close();
      if (output === undefined) return;
      finished++;
      let fault: string | undefined;
      try {
        fault = judge({ name: '', constraint, schema: whole as object }, output);
      } catch (error) {
        // The validator doesn't come to an end where a schema is an alternative of itself.
        if (!(error instanceof RangeError)) throw error;
      }
      expect(fault, constraint.text).toBeUndefined();
    },
  );
  await fc.assert(property, { numRuns: process.env.SHOAL_LONG ? 5_000 : 150 });
  console.info(`${served} served, ${refused} refused, ${finished} finished`);
  expect(finished).toBeGreaterThan(served / 2);
});
