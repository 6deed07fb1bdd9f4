import type { EngineEvent, InputLogprobsEvent, TokensEvent } from '../engine/event.ts';

/** Numbers that one part of an event may hold: a report takes a few hundred thousand. */
export const PART_NUMBERS = 200_000;

/** What a position costs beside its numbers: its messages are not free either. */
const POSITION_NUMBERS = 64;

/** An event in parts of consecutive positions, each small enough for one report; one of few numbers is its only part. */
export function splitEvent(event: EngineEvent): readonly EngineEvent[] {
  if (event.type !== 'tokens' && event.type !== 'input-logprobs') return [event];
  const positions = event.logprobs.length || (event.type === 'tokens' ? event.ids.length : 0);
  const most = Math.max(1, Math.floor(PART_NUMBERS / numbersOf(event)));
  if (positions <= most) return [event];
  return Array.from({ length: Math.ceil(positions / most) }, (_, part) => partOf(event, part * most, most));
}

/** The most numbers of a position. */
function numbersOf(event: InputLogprobsEvent | TokensEvent): number {
  const longest = (lists: readonly { readonly length: number }[]) => Math.max(0, ...lists.map(({ length }) => length));
  const top = longest(event.topLogprobs.map(({ ids }) => ids));
  const hidden = event.type === 'tokens' ? longest(event.hiddenStates) : 0;
  return POSITION_NUMBERS + 2 * top + longest(event.idLogprobs) + hidden;
}

function partOf(event: InputLogprobsEvent | TokensEvent, from: number, count: number): EngineEvent {
  const to = from + count;
  const lists = {
    topLogprobs: event.topLogprobs.slice(from, to),
    idLogprobs: event.idLogprobs.slice(from, to),
  };
  if (event.type === 'input-logprobs') {
    return { ...event, ...lists, position: event.position + from, logprobs: event.logprobs.slice(from, to) };
  }
  return {
    ...event,
    ...lists,
    offset: event.offset + from,
    ids: event.ids.slice(from, to),
    logprobs: event.logprobs.slice(from, to),
    hiddenStates: event.hiddenStates.slice(from, to),
  };
}
