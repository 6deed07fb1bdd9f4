import type { AdapterFacts } from '../engine/adapter-facts.ts';
import type { EngineBudget } from '../engine/engine-budget.ts';
import type { EngineLoad } from '../engine/engine-load.ts';
import type { KernelFlags, KernelReport } from '../engine/kernel-report.ts';
import type { Profile } from '../engine/profile.ts';

export { PRECISIONS, TUNE_MODES } from '../engine/kernel-report.ts';
export type { EngineBudget, KernelFlags, KernelReport, Profile };

/** What the page tells its Web Worker. */
export type PageMessage =
  | { readonly type: 'join'; readonly join: JoinRequest }
  | { readonly type: 'leave' }
  /** Finish what runs and take nothing new, or take new work again. */
  | { readonly type: 'pause'; readonly paused: boolean }
  /** Share of the GPU's time that it may take from now on: from LEAST_SHARE to 1. */
  | { readonly type: 'share'; readonly share: number }
  /** The page has said Detach and came back (bfcache): the old session is gone. */
  | { readonly type: 'restart' }
  | { readonly type: 'hidden'; readonly hidden: boolean }
  /** Time the kernels of the next steps, and tell. */
  | { readonly type: 'profile' };

export interface JoinRequest {
  /** Base URL of the relay's web port, without a slash at its end. */
  readonly relayUrl: string;
  readonly nodeId: string;
  readonly build: PageBuild;
  readonly budget: EngineBudget;
  readonly kernels: KernelFlags;
  /** Lets it in where the relay asks for one. */
  readonly token: string | undefined;
}

/** Which build a page is; empty texts where a development server serves it. */
export interface PageBuild {
  readonly packageVersion: string;
  /** SHA-256 of the built page, hex. */
  readonly pageHash: string;
}

/** What the Web Worker tells its page. */
export type NodeMessage =
  | {
      readonly type: 'state';
      readonly state: NodeState;
      readonly detail: string;
      /** What the page can help with. */
      readonly problem: 'no-adapter' | undefined;
    }
  | { readonly type: 'progress'; readonly loadedBytes: number; readonly totalBytes: number }
  /** Kernels tried, of how many. */
  | { readonly type: 'testing'; readonly done: number; readonly total: number }
  | { readonly type: 'facts'; readonly facts: NodeFacts }
  /** The session that a closing page must say Detach for; undefined: none. */
  | {
      readonly type: 'session';
      readonly session: DetachKey | undefined;
      readonly rank: number | undefined;
      /** Header of a Detach, where the relay asks for one. */
      readonly authorization: string | undefined;
    }
  | { readonly type: 'counters'; readonly counters: NodeCounters }
  | { readonly type: 'profile'; readonly profile: Profile }
  /** The page must reload itself: the relay serves another build or another model. */
  | { readonly type: 'reload'; readonly reason: string };

export type NodeState = 'idle' | 'loading' | 'attaching' | 'serving' | 'reconnecting' | 'leaving' | 'left' | 'error';

/** JSON of DetachRequest, without its reason: 64-bit numbers are strings there. */
export interface DetachKey {
  readonly sessionToken: string;
  readonly relayEpoch: string;
  readonly sessionEpoch: string;
}

export interface NodeFacts {
  readonly model: string;
  readonly adapter: AdapterFacts;
  /** Names of the WebGPU features in use. */
  readonly features: readonly string[];
  readonly kernels: KernelReport;
  readonly contextLength: number;
  readonly poolTokens: number;
}

/** Counted values, told once a second; what counts since the start counts since the join, over lost devices. */
export interface NodeCounters extends EngineLoad {
  /** Milliseconds since it served first; undefined: it has not yet. */
  readonly uptimeMs: number | undefined;
  /** Share of the last ten seconds in which the GPU worked at a step. */
  readonly gpuShare: number;
  /** Live GPU buffers. */
  readonly gpuBuffers: number;
}
