import type { NodeState } from '../node/messages.ts';

export const STATE_WORDS: Readonly<Record<NodeState, string>> = {
  idle: 'This page is not serving.',
  loading: 'Loading the model…',
  attaching: 'Looking for the relay…',
  serving: 'Serving.',
  reconnecting: 'The relay does not answer. Trying again…',
  leaving: 'Handing work back…',
  left: 'Left. Thank you for your GPU.',
  error: 'This page cannot serve.',
};

export const PAUSED_WORDS = 'Paused: what runs goes on to its end, nothing new comes.';

/** Colour of each state; undefined: nothing is going on. */
export const TONES: Readonly<Record<NodeState, 'good' | 'warn' | 'bad' | 'busy' | undefined>> = {
  idle: undefined,
  loading: 'busy',
  attaching: 'busy',
  serving: 'good',
  reconnecting: 'warn',
  leaving: 'busy',
  left: undefined,
  error: 'bad',
};
