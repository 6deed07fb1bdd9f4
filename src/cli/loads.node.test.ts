import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { LoRAMetricsSchema, SchedulerLoadSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { loadsTable } from './loads.ts';

test('columns that only some nodes fill stand below their names', () => {
  const lora = create(LoRAMetricsSchema, { slotsUsed: 1, slotsTotal: 4 });
  const [names, first, second] = loadsTable([
    create(SchedulerLoadSchema, { lora }),
    create(SchedulerLoadSchema, { dpRank: 1 }),
  ]).split('\n');
  expect(names!.endsWith('  adapters')).toBe(true);
  expect(first!.endsWith('       1/4')).toBe(true);
  expect([first!.length, second!.length]).toEqual([names!.length, names!.length]);
});
