import type { ModelTask } from '../checkpoint/model-task.ts';
import type { NodeState } from '../contract/node-state.ts';
import type { AdapterFacts } from '../engine/adapter-facts.ts';
import type { EngineBudget } from '../engine/engine-budget.ts';
import type { EngineLoad } from '../engine/engine-load.ts';
import type { KernelFlags, KernelReport } from '../engine/kernel-report.ts';
import type { MemoryEstimate } from '../engine/memory-facts.ts';
import type { Profile } from '../engine/profile.ts';
import type { KeptModel, StoreProgress, StoreRoom } from './store/store-facts.ts';

export { PRECISIONS, SPECULATION_MODES, TUNE_MODES } from '../engine/kernel-report.ts';
export type { EngineBudget, KeptModel, KernelFlags, KernelReport, MemoryEstimate, Profile, StoreProgress, StoreRoom };

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
  | { readonly type: 'profile' }
  /** Tell which models this browser keeps. */
  | { readonly type: 'list-models' }
  | { readonly type: 'delete-model'; readonly digest: string }
  /** Tell what a join would download and take. */
  | ({ readonly type: 'plan' } & Pick<JoinRequest, 'relayUrl' | 'token' | 'budget'>);

export interface JoinRequest {
  /** Base URL of the relay's web port, without a slash at its end. */
  readonly relayUrl: string;
  readonly nodeId: string;
  readonly build: PageBuild;
  readonly budget: EngineBudget;
  readonly kernels: KernelFlags;
  /** Lets it in where the relay asks for one. */
  readonly token: string | undefined;
  /** This tab has had a GPU: one that is away now may come back. */
  readonly hadDevice: boolean;
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
  | ({ readonly type: 'progress' } & StoreProgress)
  /** Something went another way than it should, and on: for the log. */
  | { readonly type: 'notice'; readonly notice: string }
  /** The models that this browser keeps; why it keeps none, where it doesn't; what became of a wish to delete one. */
  | {
      readonly type: 'models';
      readonly models: readonly KeptModel[];
      readonly room: StoreRoom | undefined;
      readonly problem: string | undefined;
    }
  /** What a join would download and take; or why that isn't known. */
  | { readonly type: 'plan'; readonly plan: DownloadPlan | undefined; readonly problem?: string }
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
  /** The page must reload itself: the relay serves another build of it. */
  | { readonly type: 'reload'; readonly reason: string }
  /** The adapter that it had is away for so long that only a reload may help. */
  | { readonly type: 'adapter-away' };

/** JSON of DetachRequest, without its reason: 64-bit numbers are strings there. */
export interface DetachKey {
  readonly sessionToken: string;
  readonly relayEpoch: string;
  readonly sessionEpoch: string;
}

/** What a join would download and take. */
export interface DownloadPlan {
  readonly model: string;
  /** Of the model's files. */
  readonly totalBytes: number;
  /** Of these, in this browser already. */
  readonly storedBytes: number;
  /** Hosts that they come from before the relay is asked. */
  readonly hosts: readonly string[];
  /** Of the GPU; undefined where the relay doesn't tell what the model is made of. */
  readonly memory: MemoryEstimate | undefined;
  readonly room: StoreRoom | undefined;
  /** Why it can't be kept, with sizes; undefined: it can. */
  readonly notKept: string | undefined;
}

export interface NodeFacts {
  readonly model: string;
  /** What it is for. */
  readonly task: ModelTask;
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
