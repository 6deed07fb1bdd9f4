import type { NodeState } from '../contract/node-state.ts';
import type { Tone } from './node-log.ts';

export const STATE_WORDS: Readonly<Record<NodeState, string>> = {
  idle: 'This page is not serving.',
  waiting: 'Two tabs of this browser serve already. This one waits until one of them leaves.',
  loading: 'Loading the model…',
  attaching: 'Looking for the relay…',
  serving: 'Serving.',
  reconnecting: 'The relay does not answer. Trying again…',
  leaving: 'Handing work back…',
  left: 'Left. Thank you for your GPU.',
  error: 'This page cannot serve.',
};

/** For a badge. */
export const STATE_NAMES: Readonly<Record<NodeState, string>> = {
  idle: 'Not joined',
  waiting: 'Waiting',
  loading: 'Loading',
  attaching: 'Attaching',
  serving: 'Serving',
  reconnecting: 'Reconnecting',
  leaving: 'Leaving',
  left: 'Left',
  error: 'Stopped',
};

/** For the log: what begins with each state. */
export const LOG_WORDS: Readonly<Record<NodeState, string>> = {
  idle: 'Opened',
  waiting: 'Waits: two tabs of this browser serve already',
  loading: 'Loads the model',
  attaching: 'Looks for the relay',
  serving: 'Serves',
  reconnecting: 'The relay does not answer',
  leaving: 'Hands work back',
  left: 'Left',
  error: 'Cannot serve',
};

/** What of it is good, or trouble. */
export function logTone(state: NodeState, why: string): Tone {
  if (state === 'serving') return 'good';
  if (state === 'error') return 'bad';
  return state === 'reconnecting' || state === 'waiting' || why !== '' ? 'warn' : undefined;
}

export const PAUSED_WORDS = 'Paused: what runs goes on to its end, nothing new comes.';

/** Colour of each state; undefined: nothing is going on. */
export const TONES: Readonly<Record<NodeState, Tone | 'busy'>> = {
  idle: undefined,
  waiting: 'warn',
  loading: 'busy',
  attaching: 'busy',
  serving: 'good',
  reconnecting: 'warn',
  leaving: 'busy',
  left: undefined,
  error: 'bad',
};
