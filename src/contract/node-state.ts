/**
 * What a page's node does, as the page shows it in `document.documentElement.dataset.state`, for who started its browser
 * too. One that waits for a seat beside other tabs tells its Web Worker nothing of it yet.
 */
export type NodeState =
  | 'idle'
  | 'waiting'
  | 'loading'
  | 'attaching'
  | 'serving'
  | 'reconnecting'
  | 'leaving'
  | 'left'
  | 'error';
