import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Generation } from '../../src/cli/gateway-venv.ts';
import { skipGateway } from './gateway.ts';
import { COMPLETION, cases, PROMPT } from './golden.ts';
import { openServingGateway, type ServingGateway } from './serving.ts';
import { EBNFS, isWeather, REGEXES, SCHEMAS, type StructuredCase, WEATHER_SCHEMA } from './structured.ts';

type Chat = OpenAI.ChatCompletionCreateParamsNonStreaming;

const TOOLS: OpenAI.ChatCompletionTool[] = [
  { type: 'function', function: { name: 'tell_weather', description: 'Tells it.', parameters: WEATHER_SCHEMA } },
  {
    type: 'function',
    function: {
      name: 'turn',
      parameters: {
        type: 'object',
        properties: { to: { enum: ['left', 'right'] } },
        required: ['to'],
        additionalProperties: false,
      },
    },
  },
];

function argumentsHold(name: string, json: string): boolean {
  const value = JSON.parse(json);
  return name === 'tell_weather' ? isWeather(value) : name === 'turn' && ['left', 'right'].includes(value.to);
}

interface Answer {
  readonly index: number;
  readonly content: string;
  readonly tools: { name: string; arguments: string }[];
  readonly finishReason: string | null;
  readonly logprobs: OpenAI.ChatCompletionTokenLogprob[];
}

/** The gateways' own cases with OpenAI's client library, each streamed and not. */
export function describeStructured(generation: Generation): void {
  describe.skipIf(skipGateway !== undefined)(`generation ${generation}`, () => {
    let serving: ServingGateway;
    let openai: OpenAI;

    beforeAll(async () => {
      serving = await openServingGateway(generation);
      openai = new OpenAI({ baseURL: `${serving.gateway.url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 50_000 });
    });

    afterAll(async () => {
      await serving?.close();
    });

    async function whole(body: Chat): Promise<Answer[]> {
      const { choices } = await openai.chat.completions.create(body);
      return choices.map(({ index, message, finish_reason, logprobs }) => ({
        index,
        content: message.content ?? '',
        tools: (message.tool_calls ?? []).flatMap((call) => (call.type === 'function' ? [call.function] : [])),
        finishReason: finish_reason,
        logprobs: logprobs?.content ?? [],
      }));
    }

    async function streamed(body: Chat): Promise<Answer[]> {
      const answers: { -readonly [K in keyof Answer]: Answer[K] }[] = [];
      for await (const { choices } of await openai.chat.completions.create({ ...body, stream: true })) {
        for (const { index, delta, finish_reason, logprobs } of choices) {
          answers[index] ??= { index, content: '', tools: [], finishReason: null, logprobs: [] };
          const answer = answers[index];
          answer.content += delta.content ?? '';
          for (const call of delta.tool_calls ?? []) {
            answer.tools[call.index] ??= { name: '', arguments: '' };
            answer.tools[call.index]!.name += call.function?.name ?? '';
            answer.tools[call.index]!.arguments += call.function?.arguments ?? '';
          }
          answer.finishReason = finish_reason ?? answer.finishReason;
          answer.logprobs.push(...(logprobs?.content ?? []));
        }
      }
      return answers;
    }

    /** Where JSON may have spaces this model makes as many as it may: penalties bring it to the point. */
    const BRIEF = { frequency_penalty: 2, presence_penalty: 1 };

    const ask = (more: Partial<Chat> & object): Chat => ({
      model: 'stories260K',
      messages: [{ role: 'user', content: PROMPT }],
      temperature: 0,
      max_tokens: 450,
      ...more,
    });

    /** All go through the second generation; how a kind is passed on, the first one's two tell as well. */
    const some = <T>(all: readonly T[]) => (generation === 2 ? all : all.slice(0, 2));

    const ways = { whole, streamed };

    describe.each(Object.entries(ways))('%s', (_, run) => {
      async function expectHolds({ holds }: StructuredCase, field: object): Promise<void> {
        for (const temperature of [0, 1.2]) {
          for (const { content, finishReason } of await run(ask({ ...field, temperature, n: 2 }))) {
            expect(finishReason, content).toBe('stop');
            expect(holds(content), content).toBe(true);
          }
        }
      }

      test.each(some(SCHEMAS).map((each) => [each.name, each] as const))('json_schema: %s', async (_, each) => {
        const schema = JSON.parse(each.text);
        const response_format = { type: 'json_schema' as const, json_schema: { name: 'answer', strict: true, schema } };
        await expectHolds(each, { response_format, ...BRIEF });
      });

      test('json_object', async () => {
        const answers = await Promise.all(
          [0, 0.7, 1.2].map((temperature) =>
            run(ask({ response_format: { type: 'json_object' }, ...BRIEF, temperature, n: 2, max_tokens: 120 })),
          ),
        );
        for (const { content, finishReason } of answers.flat()) {
          // Nothing bounds it but the context; what ends by itself is whole.
          if (finishReason === 'stop') expect(JSON.parse(content)).toBeTypeOf('object');
          else expect(content.trimStart()).toMatch(/^\{/);
        }
      });

      test('tool_choice required: one of the tools, or several', async () => {
        const body = ask({ tools: TOOLS, tool_choice: 'required', ...BRIEF });
        const [greedy] = (await run(body)) as [Answer];
        expect(greedy.finishReason, JSON.stringify(greedy)).toBe('tool_calls');
        // How many calls there are nothing bounds but the context: what ends by itself is whole.
        const random = await run({ ...body, temperature: 0.7, n: 2 });
        for (const { tools, finishReason } of [greedy, ...random]) {
          if (finishReason === 'length') continue;
          expect(finishReason).toBe('tool_calls');
          expect(tools.length).toBeGreaterThan(0);
          for (const call of tools) expect(argumentsHold(call.name, call.arguments), JSON.stringify(call)).toBe(true);
        }
      });

      test('tool_choice of a named function', async () => {
        for (const { function: called } of TOOLS as { function: { name: string } }[]) {
          const { name } = called;
          const [answer] = await run(
            ask({ tools: TOOLS, tool_choice: { type: 'function', function: { name } }, ...BRIEF }),
          );
          expect(answer!.tools.map((call) => call.name)).toEqual([name]);
          expect(argumentsHold(name, answer!.tools[0]!.arguments), answer!.tools[0]!.arguments).toBe(true);
        }
      });

      // Fields of SGLang's that the library's types don't know.
      test.each(some(REGEXES).map((each) => [each.name, each] as const))('regex: %s', async (_, each) => {
        await expectHolds(each, { regex: each.text });
      });

      test.each(some(EBNFS).map((each) => [each.name, each] as const))('ebnf: %s', async (_, each) => {
        await expectHolds(each, { ebnf: each.text });
      });

      test('stop lists: the one that comes first ends the text before it', async () => {
        for (const stop of [
          ['zebra', 'Lily', 'girl'],
          ['park.', ' One day'],
          ['named Lily.', 'zebra'],
        ]) {
          const [answer] = await run(ask({ stop, max_tokens: 60 }));
          const at = Math.min(...stop.map((text) => COMPLETION.indexOf(text)).filter((found) => found >= 0));
          expect(answer!.content).toBe(COMPLETION.slice(0, at));
          expect(answer!.finishReason).toBe('stop');
        }
      });

      test('logprobs with the five best, and n = 2', async () => {
        const golden = cases.cases[1]!;
        const count = 30;
        const answers = await run(ask({ logprobs: true, top_logprobs: 5, n: 2, max_tokens: count }));
        expect(answers.map(({ index }) => index)).toEqual([0, 1]);
        for (const { content, finishReason, logprobs } of answers) {
          expect(finishReason).toBe('length');
          expect(COMPLETION.startsWith(content) && content.length > 30).toBe(true);
          expect(logprobs).toHaveLength(count);
          for (const [i, { logprob, top_logprobs }] of logprobs.entries()) {
            expect(Math.abs(logprob - golden.output_logprobs[i]!)).toBeLessThan(cases.tolerance.logprob);
            expect(top_logprobs).toHaveLength(5);
            for (const [k, each] of top_logprobs.entries()) {
              const [, expected] = golden.output_top5[i]![k] as [number, number];
              expect(Math.abs(each.logprob - expected)).toBeLessThan(cases.tolerance.logprob);
            }
          }
        }
      });

      test('n = 2 at random makes two texts', async () => {
        const [first, second] = await run(ask({ n: 2, temperature: 1.5, max_tokens: 40 }));
        expect(first!.content).not.toBe(second!.content);
      });

      test("a bad grammar is the client's mistake, with its reason", async () => {
        const failure = await run(ask({ regex: '(' } as object)).then(
          () => undefined,
          (error: unknown) => error as InstanceType<typeof OpenAI.APIError>,
        );
        // The first generation makes a 500 of everything.
        expect(failure?.status).toBe(generation === 2 ? 400 : 500);
        expect(failure?.message).toContain('regex');
      });
    });

    test('and the reference text comes as ever', async () => {
      const [answer] = await whole(ask({ max_tokens: 196 }));
      expect(answer).toMatchObject({ content: COMPLETION, finishReason: 'length' });
      expect(serving.browser.errors).toEqual([]);
    });
  });
}
