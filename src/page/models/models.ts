import { effect, signal } from '@preact/signals';
import type { DownloadPlan, KeptModel, NodeMessage, PageMessage, StoreRoom } from '../../node/messages.ts';
import { budget } from '../budget.ts';
import { nodeToken } from '../link.ts';

/** The models that this browser keeps; undefined: not known yet. */
export const models = signal<readonly KeptModel[] | undefined>(undefined);
/** What this site may keep, and keeps. */
export const room = signal<StoreRoom | undefined>(undefined);
/** Why nothing is kept, or why a model wasn't deleted. */
export const storeProblem = signal<string | undefined>(undefined);
/** What a join would download and take. */
export const plan = signal<DownloadPlan | undefined>(undefined);
/** Why that isn't known. */
export const planProblem = signal<string | undefined>(undefined);

/** A number that is being typed is no budget to ask about. */
const SETTLE_MS = 300;

let send: ((message: PageMessage) => void) | undefined;

/** Asks a Web Worker that has just started what is kept; what a join would take is asked once that is told. */
export function connectModels(tell: (message: PageMessage) => void): void {
  send = tell;
  send({ type: 'list-models' });
}

export function deleteModel(digest: string): void {
  send?.({ type: 'delete-model', digest });
}

/** A node that joins asks the browser not to clear what it keeps when the disk gets full. */
export function askToPersist(): void {
  // Refused, or asked of a browser that doesn't know it: the model is kept as long as there is room.
  void navigator.storage?.persist?.().catch(() => {});
}

/** What the Web Worker tells of models. */
export function takeModels(message: Extract<NodeMessage, { readonly type: 'models' | 'plan' }>): void {
  if (message.type === 'plan') {
    plan.value = message.plan;
    planProblem.value = message.problem;
    return;
  }
  models.value = message.models;
  room.value = message.room;
  storeProblem.value = message.problem;
  // What is kept need not be downloaded.
  askPlan();
}

function askPlan(): void {
  send?.({ type: 'plan', relayUrl: location.origin, token: nodeToken(), budget: budget.peek() });
}

let timer: ReturnType<typeof setTimeout> | undefined;
effect(() => {
  void budget.value;
  clearTimeout(timer);
  if (send) timer = setTimeout(askPlan, SETTLE_MS);
});
