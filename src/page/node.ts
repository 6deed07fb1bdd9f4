import { computed, effect, signal } from '@preact/signals';
import type { NodeState } from '../contract/node-state.ts';
import type {
  DetachKey,
  JoinRequest,
  KernelFlags,
  NodeCounters,
  NodeFacts,
  NodeMessage,
  Profile,
  StoreProgress,
} from '../node/messages.ts';
import { budget } from './budget.ts';
import { ownBuild } from './build.ts';
import { detachOnClose } from './closing.ts';
import { DownloadRate } from './download-rate.ts';
import { kernelFlags, withoutReset } from './kernel-flags.ts';
import { hold } from './limits/hold.ts';
import { limits } from './limits/limits.ts';
import { forgetJoin, nodeToken, rejoinOnReload } from './link.ts';
import { logFacts } from './log-facts.ts';
import { askToPersist, takeModels } from './models/models.ts';
import { claimNodeId } from './node-id.ts';
import { logEvent } from './node-log.ts';
import { NodeThread } from './node-thread.ts';
import { hadDevice, reloadPage, rememberDevice } from './reload.ts';
import { LOG_WORDS, logTone } from './state-words.ts';
import { type TabSeat, tabsShareConnections, takeSeat } from './tab-seats.ts';
import { adapterAwayHelp, adapterHelp } from './webgpu-help.ts';

/** This page's node, as its Web Worker tells of it. */
export const state = signal<NodeState>('idle');
export const detail = signal('');
export const facts = signal<NodeFacts | undefined>(undefined);
export const progress = signal<StoreProgress | undefined>(undefined);
/** Bytes of the model that come a second; undefined: not known yet. */
export const rate = signal<number | undefined>(undefined);
/** Kernels tried, of how many; undefined: none are being tried. */
export const testing = signal<{ readonly done: number; readonly total: number } | undefined>(undefined);
export const counters = signal<NodeCounters | undefined>(undefined);
export const rank = signal<number | undefined>(undefined);
/** What kernels took, as timed last; 'timing': they are timed now. */
export const profile = signal<Profile | 'timing' | undefined>(undefined);
/** The user holds the node: it finishes what it has and takes nothing new. */
export const paused = signal(false);
export const joined = computed(() => !['idle', 'left', 'error'].includes(state.value));

const arrivals = new DownloadRate();

// There from the start, so that a relay that goes away before the first join takes no script along.
const thread = new NodeThread({
  onMessage: take,
  wanted: () => joined.value,
  onError: (reason) => setState('error', reason),
  onScriptMissing: () => setState('loading', "the relay did not send the Web Worker's script; trying again"),
  onStartedAgain: tellAll,
});
let session: { readonly key: DetachKey; readonly authorization: string | undefined } | undefined;
/** While it comes: leaving, and taking a seat from another tab. */
let coming: { readonly leave: AbortController; readonly takeOver: AbortController } | undefined;
let seat: TabSeat | undefined;
/** What is told of a leaving that the user did not ask for here. */
let leftBecause = '';
/** What the Web Worker was told to join with. */
let joins: JoinRequest | undefined;
/** A Web Worker hands back what it has in less; one that hangs is ended. */
const LEAVE_BOUND_MS = 20_000;
let leaveBound: ReturnType<typeof setTimeout> | undefined;
/** The user asked to have the kernels tried again: once the node has left, it joins so. */
let testsAgain = false;

/** Loads the model and serves until `leave`; `tune` counts instead of what the address says. */
export async function join(tune?: KernelFlags['tune']): Promise<void> {
  if (joined.value) return;
  let kernels: KernelFlags;
  try {
    kernels = kernelFlags(location.search);
  } catch (error) {
    setState('error', (error as Error).message);
    return;
  }
  setState('loading', '');
  thread.start();
  tellAll();
  askToPersist();
  const nodeId = await come();
  if (nodeId === undefined) return;
  if (tune) kernels = { ...kernels, tune };
  joins = {
    relayUrl: location.origin,
    nodeId,
    build: ownBuild(),
    budget: budget.value,
    kernels,
    token: nodeToken(),
    hadDevice: hadDevice(),
  };
  thread.tell({ type: 'join', join: joins });
  // A reload, the user's or the page's own, starts with what this reset finds.
  if (kernels.tune === 'reset')
    history.replaceState(null, '', location.pathname + withoutReset(location.search) + location.hash);
}

/** The node's id, once it has a seat where it needs one; undefined: it has left before. */
async function come(): Promise<string | undefined> {
  const own = { leave: new AbortController(), takeOver: new AbortController() };
  coming = own;
  try {
    if (tabsShareConnections()) {
      const waits = () => setState('waiting', '');
      const taken = await takeSeat(own.leave.signal, own.takeOver.signal, waits);
      if (own.leave.signal.aborted) taken.release();
      else keepSeat(taken);
    }
    const nodeId = await claimNodeId();
    if (own.leave.signal.aborted) return undefined;
    setState('loading', '');
    return nodeId;
  } catch (error) {
    if (!own.leave.signal.aborted) setState('error', (error as Error).message);
    return undefined;
  } finally {
    if (coming === own) coming = undefined;
  }
}

function keepSeat(taken: TabSeat): void {
  seat = taken;
  void taken.taken.then(() => {
    if (seat !== taken) return;
    leftBecause = 'Another tab of this browser has taken over.';
    leave();
  });
}

/** Serves in place of another tab of this browser. */
export function takeOver(): void {
  coming?.takeOver.abort();
}

/** Hands running work back, and joins again with all kernels tried anew. */
export function testKernelsAgain(): void {
  testsAgain = true;
  if (joined.value) leave();
  else rejoin();
}

function rejoin(): void {
  testsAgain = false;
  void join('reset');
}

/** Hands running work back and stops. */
export function leave(): void {
  forgetJoin();
  if (!coming) {
    if (!thread.there && joined.value) setState('left', leftBecause);
    thread.tell({ type: 'leave' });
    const ended = () => setState('left', 'Its Web Worker did not answer, and was ended.');
    if (joined.value) leaveBound ??= setTimeout(ended, LEAVE_BOUND_MS);
    return;
  }
  // The Web Worker knows of no join yet.
  coming.leave.abort();
  coming = undefined;
  setState('left', leftBecause);
}

/** Holds the node, or lets it take new work again. */
export function pause(held: boolean): void {
  paused.value = held;
  logEvent(held ? 'Paused' : 'Resumed');
}

/** Has the kernels of the next steps timed. */
export function timeKernels(): void {
  profile.value = 'timing';
  thread.tell({ type: 'profile' });
}

/** How much the node may do just now: its user's word, and the limits. */
function tellLimits(): void {
  thread.tell({ type: 'pause', paused: paused.value || hold.value !== undefined });
  thread.tell({ type: 'share', share: limits.value.gpuShare });
}

/** What a Web Worker that has just started is to know: with a join that is under way, that too. */
function tellAll(): void {
  thread.tell({ type: 'hidden', hidden: document.hidden });
  tellLimits();
  if (joins) thread.tell({ type: 'join', join: joins });
}

document.addEventListener('visibilitychange', () => thread.tell({ type: 'hidden', hidden: document.hidden }));
effect(tellLimits);
let heldFor: string | undefined;
effect(() => {
  const why = joined.value ? hold.value : undefined;
  if (why === heldFor) return;
  heldFor = why;
  if (why !== undefined) logEvent(`Holds off: ${why}`, 'warn');
  else if (joined.value) logEvent('Holds off no more');
});
detachOnClose(
  () => session,
  () => thread.tell({ type: 'restart' }),
);

function take(message: NodeMessage): void {
  switch (message.type) {
    case 'state':
      takeState(message);
      break;
    case 'progress':
      progress.value = message;
      arrivals.add(performance.now(), message.loadedBytes);
      rate.value = arrivals.perSecond(performance.now());
      break;
    case 'testing':
      testing.value = message;
      break;
    case 'facts':
      rememberDevice();
      // Told again where the device refuses a kernel late.
      logFacts(message.facts, state.value === 'loading' ? undefined : facts.value);
      facts.value = message.facts;
      testing.value = undefined;
      break;
    case 'session':
      session = message.session && { key: message.session, authorization: message.authorization };
      rank.value = message.rank;
      break;
    case 'counters':
      counters.value = message.counters;
      break;
    case 'profile':
      profile.value = message.profile;
      break;
    case 'notice':
      logEvent(message.notice, 'warn');
      break;
    case 'models':
    case 'plan':
      takeModels(message);
      break;
    case 'reload':
      if (!reloadPage()) setState('error', `${message.reason}, and reloading the page did not help`);
      break;
    case 'adapter-away':
      rememberDevice();
      // Where it may not, what its user can do is told already, and the node looks each minute.
      if (!reloadPage()) rejoinOnReload();
      break;
  }
}

function takeState({ state, detail, problem }: NodeMessage & { readonly type: 'state' }): void {
  const { dataset } = document.documentElement;
  // For who started this browser, and can start another.
  if (problem) dataset.problem = problem;
  else if (state === 'serving') delete dataset.problem;
  const why = state === 'left' ? detail || leftBecause : detail;
  setState(state, problem ? `${why}. ${state === 'loading' ? adapterAwayHelp() : adapterHelp()}` : why);
}

function setState(next: NodeState, why: string): void {
  if (next !== state.value || why !== '') {
    const words = next === 'serving' ? `Serves as rank ${rank.value}` : LOG_WORDS[next];
    logEvent(why ? `${words}: ${why}` : words, logTone(next, why));
  }
  state.value = next;
  detail.value = why;
  const { dataset } = document.documentElement;
  dataset.state = next;
  if (next === 'error') dataset.error = why;
  else delete dataset.error;
  if (next === 'left' || next === 'error') {
    clearTimeout(leaveBound);
    leaveBound = undefined;
    joins = undefined;
    // A Web Worker that has left holds no model any more; ending it frees the rest.
    thread.replace();
    session = undefined;
    seat?.release();
    seat = undefined;
    leftBecause = '';
    paused.value = false;
    counters.value = undefined;
    progress.value = undefined;
    arrivals.reset();
    rate.value = undefined;
    testing.value = undefined;
    rank.value = undefined;
    profile.value = undefined;
    if (next === 'left' && testsAgain) rejoin();
    testsAgain = false;
  }
}
