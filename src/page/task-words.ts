import type { ModelTask } from '../checkpoint/model-task.ts';

/** What a model does, after "which". */
export const TASK_WORDS: Readonly<Record<ModelTask, string>> = {
  generate: 'generates text',
  embed: 'makes embeddings of texts',
  classify: 'classifies texts, or scores pairs of them',
};
