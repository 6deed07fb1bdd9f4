import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { invalid } from '../../contract/contract-error.ts';
import type { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import {
  ListLoadedLoRAAdaptersResponseSchema,
  LoadLoRAAdapterResponseSchema,
  UnloadLoRAAdapterResponseSchema,
} from '../../contract/gen/sglang_scheduler_pb.ts';
import { toConnectError } from '../to-connect-error.ts';
import type { ServedAdapters } from './served-adapters.ts';

type LoraRpcs = Pick<
  ServiceImpl<typeof SglangScheduler>,
  'loadLoRAAdapter' | 'unloadLoRAAdapter' | 'listLoadedLoRAAdapters'
>;

/** LoRA adapters, as the second gateway generation manages them. What fails is a status, never `success` false. */
export function loraRpcs(adapters: ServedAdapters): LoraRpcs {
  const serves = (rpc: string) => {
    if (adapters.room.most > 0) return;
    throw new ConnectError(`${rpc} is not served: the relay was started without --max-loras.`, Code.Unimplemented);
  };
  const ids = () => adapters.all.map(({ id }) => id);
  return {
    async loadLoRAAdapter({ loraName: name, loraPath: path, loraId: id, pinned }) {
      serves('LoadLoRAAdapter');
      try {
        const message = await adapters.load({ name, path, id, pinned });
        return create(LoadLoRAAdapterResponseSchema, { success: true, message, loadedLoraIds: ids() });
      } catch (error) {
        throw toConnectError(error);
      }
    },

    async unloadLoRAAdapter({ loraName, loraId }) {
      serves('UnloadLoRAAdapter');
      try {
        if (loraName === '' && loraId === '') throw invalid('lora_name', 'must be set, or lora_id.');
        const message = await adapters.unload(loraId || loraName);
        return create(UnloadLoRAAdapterResponseSchema, { success: true, message, loadedLoraIds: ids() });
      } catch (error) {
        throw toConnectError(error);
      }
    },

    listLoadedLoRAAdapters() {
      serves('ListLoadedLoRAAdapters');
      const loadedAdapters = adapters.all.map(({ id, name, path, pinned }) => ({
        ...{ loraId: id, loraName: name, loraPath: path, pinned },
      }));
      return create(ListLoadedLoRAAdaptersResponseSchema, { loadedAdapters });
    },
  };
}
