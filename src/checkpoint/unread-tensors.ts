import type { ModelTask } from './model-task.ts';
import { type TextPart, textTensorName } from './text-part.ts';

/** What published files hold beside an encoder: its places' numbers, and heads of what it was trained by. */
const BESIDE_ENCODER = /(^|\.)(position_ids|token_type_ids|pooler\.dense\.(weight|bias)|cls\..+|lm_head\..+)$/;

/** Whether a tensor of that name may lie beside those of an encoder that are read. */
export function liesBesideEncoder(name: string): boolean {
  return BESIDE_ENCODER.test(name);
}

/** What is asked of a model whose tensors are counted. */
export interface ReadModelTensors {
  readonly task: ModelTask;
  readonly isEncoder: boolean;
  /** It has its embedding for a head. */
  readonly tiedHead: boolean;
  /** Of a model of several kinds of input. */
  readonly textPart?: TextPart | undefined;
}

/** Whether nobody who loads the model reads its tensor of that name. */
export function staysUnread(stored: string, { task, isEncoder, tiedHead, textPart }: ReadModelTensors): boolean {
  const name = textPart ? textTensorName(stored, textPart) : stored;
  if (name === undefined) return true;
  if (!isEncoder) return name === 'lm_head.weight' && (tiedHead || task !== 'generate');
  // A classifier is what stands on the pooler.
  return liesBesideEncoder(name) && !(task === 'classify' && /(^|\.)pooler\.dense\./.test(name));
}
