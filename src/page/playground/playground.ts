import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-web';
import { batch, computed, effect, signal, untracked } from '@preact/signals';
import type { ChatMessage } from '../../checkpoint/chat-template.ts';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import type { RelayAccess } from '../../node/relay-access.ts';
import { viewerAccess, viewerToken } from '../viewer-access.ts';
import { Completion } from './completion.ts';
import { forgetTexts } from './embed-texts.ts';
import { DEFAULT_FIELDS, FieldError, type Fields, requestOf } from './fields.ts';
import { openTokenizer, type PlaygroundModel, type VectorModel } from './open-tokenizer.ts';

export type ModelState =
  | { readonly name: 'loading' }
  | { readonly name: 'open'; readonly model: PlaygroundModel }
  /** It generates nothing. */
  | { readonly name: 'vectors'; readonly model: VectorModel }
  /** `token`: whether one was given. */
  | { readonly name: 'refused'; readonly why: string; readonly token: boolean }
  | { readonly name: 'failed'; readonly why: string };

export type Mode = 'chat' | 'prompt';

/** What the user said, and what came of it. */
export interface Turn {
  readonly text: string;
  readonly completion: Completion;
}

/** All of the view's state: it outlives a visit to another view. */
export const modelState = signal<ModelState>({ name: 'loading' });
export const fields = signal<Fields>(DEFAULT_FIELDS);
export const mode = signal<Mode>('chat');
export const system = signal('');
/** What is being typed. */
export const draft = signal('');
export const turns = signal<readonly Turn[]>([]);
/** What the raw prompt's last run made, with its prompt. */
export const run = signal<Turn | undefined>(undefined);
/** Numbers that the browser can't read as they were typed: their fields hold nothing, and are not empty. */
const unreadable = new Set<keyof Fields>();
/** Why a request was not sent. */
export const fault = signal<{ readonly field: keyof Fields | undefined; readonly message: string } | undefined>(
  undefined,
);

const active = computed(() => (mode.value === 'chat' ? turns.value.at(-1) : run.value)?.completion);
/** The one that is being answered now: one at a time, since a page has few connections. */
export const running = computed(() =>
  [turns.value.at(-1)?.completion, run.value?.completion].find((one) => one?.running),
);

let opening: RelayAccess | undefined;

/** Gets what the playground needs of the model, unless it is there. */
export async function openModel(): Promise<void> {
  const access = viewerAccess();
  if (modelState.value.name === 'open' || opening === access) return;
  opening = access;
  modelState.value = { name: 'loading' };
  let next: ModelState;
  try {
    const model = await openTokenizer(location.origin, access.ask);
    next = 'task' in model ? { name: 'vectors', model } : { name: 'open', model };
  } catch (error) {
    next = refusal(error) ?? { name: 'failed', why: (error as Error).message };
  }
  // What another viewer asked for counts no more.
  if (opening !== access) return;
  opening = undefined;
  if (next.name === 'open') {
    advise(next.model.advised);
    if (!next.model.template) mode.value = 'prompt';
  }
  modelState.value = next;
}

/** Fields that the user has not changed. */
function advise(advised: Partial<Fields>): void {
  const names = Object.keys(advised) as (keyof Fields)[];
  const untouched = names.filter((name) => fields.value[name] === DEFAULT_FIELDS[name]);
  fields.value = { ...fields.value, ...Object.fromEntries(untouched.map((name) => [name, advised[name]])) };
}

let seenAs = viewerToken.value;
effect(() => {
  const token = viewerToken.value;
  untracked(() => {
    if (token !== seenAs) anotherViewer(seenAs !== undefined);
    seenAs = token;
  });
});

/** Another token counts from now on; `forget`: what was asked with the one before is nobody else's to read. */
function anotherViewer(forget: boolean): void {
  opening = undefined;
  batch(() => {
    modelState.value = { name: 'loading' };
    if (!forget) return;
    running.value?.stop();
    turns.value = [];
    run.value = undefined;
    draft.value = '';
    system.value = '';
    fault.value = undefined;
    fields.value = DEFAULT_FIELDS;
    unreadable.clear();
    forgetTexts();
  });
}

function refusal(error: unknown): ModelState | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  const { code, rawMessage: why } = error;
  if (code !== Code.Unauthenticated && code !== Code.PermissionDenied) return undefined;
  return { name: 'refused', why, token: code === Code.PermissionDenied || viewerToken.value !== undefined };
}

/** `readable`: the value is all that was typed. */
export function setField<K extends keyof Fields>(field: K, value: Fields[K], readable = true): void {
  if (readable) unreadable.delete(field);
  else unreadable.add(field);
  fields.value = { ...fields.value, [field]: value };
  if (fault.value?.field === field) fault.value = undefined;
}

export function resetFields(): void {
  unreadable.clear();
  const { value } = modelState;
  fields.value = { ...DEFAULT_FIELDS, ...(value.name === 'open' ? value.model.advised : {}) };
  fault.value = undefined;
}

/** Sends the draft. What can't be sent stays, with `fault` saying why. */
export function send(): void {
  const { value: opened } = modelState;
  if (opened.name !== 'open' || running.value) return;
  const text = draft.value;
  if (text === '') {
    fault.value = { field: undefined, message: 'Write something first.' };
    return;
  }
  fault.value = undefined;
  try {
    const { model } = opened;
    const chat = mode.value === 'chat' ? model.template : undefined;
    const inputIds = chat ? model.tokenizer.encodeBare(chat.render(messages(text))) : model.tokenizer.encode(text);
    if (inputIds.length >= model.contextLength) {
      const where = chat ? 'The chat is' : 'The prompt is';
      throw new Error(
        `${where} ${inputIds.length} tokens long; the model takes ${model.contextLength}, its answer included.`,
      );
    }
    // A chat goes on with one answer.
    const chosen = chat ? { ...fields.value, n: '1' } : fields.value;
    const [odd] = unreadable;
    if (odd) throw new FieldError(odd, 'it must be a number');
    const request = requestOf(chosen, inputIds, `page-${randomId()}`);
    const turn = { text, completion: new Completion(generate, request, model.tokens, chosen) };
    if (chat) {
      turns.value = [...turns.value, turn];
      draft.value = '';
    } else run.value = turn;
    const asked = viewerAccess();
    void turn.completion.over.then(() => {
      const { value: problem } = turn.completion.problem;
      const refused = problem && refusal(problem);
      if (refused && asked === viewerAccess()) modelState.value = refused;
    });
  } catch (error) {
    const field = error instanceof FieldError ? error.field : undefined;
    fault.value = { field, message: (error as Error).message };
  }
}

/** 128 bits in hex. A page over plain http, of another host than localhost, has no `crypto.randomUUID`. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const generate: ConstructorParameters<typeof Completion>[0] = (request, options) => {
  const transport = createGrpcWebTransport({ baseUrl: location.origin, fetch: viewerAccess().ask });
  return createClient(SglangScheduler, transport).generate(request, options);
};

function messages(next: string): ChatMessage[] {
  const past = turns.value.flatMap(({ text, completion }): ChatMessage[] => [
    { role: 'user', content: text },
    { role: 'assistant', content: completion.said },
  ]);
  const first: ChatMessage[] = system.value.trim() === '' ? [] : [{ role: 'system', content: system.value }];
  return [...first, ...past, { role: 'user', content: next }];
}

export function stop(): void {
  running.value?.stop();
}

/** Forgets the chat. */
export function newChat(): void {
  active.value?.stop();
  turns.value = [];
  fault.value = undefined;
}

/** Takes the last turn back, its text to be sent again, before what is being typed. */
export function takeBack(): void {
  const last = turns.value.at(-1);
  if (!last || last.completion.running) return;
  turns.value = turns.value.slice(0, -1);
  draft.value = [last.text, draft.value].filter((text) => text !== '').join('\n');
}
