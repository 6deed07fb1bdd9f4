import f32 from '../../shaders/kv-f32.wgsl?raw';

/** How the numbers of K and V are kept. */
export type KvFormat = 'f32';

export interface KvFormatInfo {
  /** Bytes of one number. */
  readonly bytes: number;
  /** WGSL: KvWord, four numbers, with kvPack and kvUnpack. */
  readonly code: string;
}

export const KV_FORMATS: Readonly<Record<KvFormat, KvFormatInfo>> = { f32: { bytes: 4, code: f32 } };
